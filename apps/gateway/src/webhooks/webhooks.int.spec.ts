import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { runEnd } from '@codedock/domain';
import { createLogger } from '@codedock/platform';
import { clockOf, type Leadership, openStore, type Store } from '@codedock/store';
import {
  awaitHorizon,
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  TestTenant as StoreTenant,
  type TestDatabase,
} from '@codedock/testkit';
import { Client } from 'pg';
import { SecretTexts } from '../secrets/secret-texts.js';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';
import { startWebhookSender, type WebhookSender } from './webhook-sender.js';

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver that keeps what it gets and answers as it is told: a status, or never. */
class Receiver {
  readonly received: Received[] = [];
  answers: (number | 'never')[] = [];
  private constructor(private readonly server: Server) {}

  static async open(): Promise<Receiver> {
    const server = createServer();
    const receiver = new Receiver(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString('utf8');
        receiver.received.push({ path: request.url ?? '', headers: request.headers, body });
        const answer = receiver.answers.shift() ?? 204;
        if (answer === 'never') return;
        response.writeHead(answer, answer === 302 ? { location: '/elsewhere' } : {}).end('words that nobody reads');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }
  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/hook`;
  }
  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let inStore: StoreTenant;
let receiver: Receiver;
let observer: Client;
const senders: WebhookSender[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url, { CODEDOCK_WEBHOOK_ALLOW_PRIVATE: 'true' });
  observer = new Client({ connectionString: database.url });
  await observer.connect();
});
beforeEach(async () => {
  tenant = await gateway.tenant(`webhooks ${randomUUID()}`);
  inStore = new StoreTenant(gateway.store, tenant.id);
  receiver = await Receiver.open();
});
afterEach(async () => {
  await Promise.all(senders.splice(0).map((sender) => sender.stop()));
  for (const { id } of await gateway.store.webhooks.list(tenant.id)) await gateway.store.webhooks.delete(tenant.id, id);
  await receiver.close();
});
afterAll(async () => {
  await observer.end();
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const send = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
  gateway.send(method, `/v1/webhooks${path}`, { key: tenant.key, headers, ...(body === undefined ? {} : { body }) });

async function leased() {
  const sessionId = await inStore.session();
  const { run } = await inStore.accept(sessionId);
  await inStore.lease(run.id);
  return { runId: run.id, sessionId };
}
async function ended() {
  const run = await leased();
  await inStore.end(run, 1);
  return run;
}

function expectSigned({ headers, body }: Received, secret: string): void {
  const [id, timestamp] = [headers['webhook-id'], headers['webhook-timestamp']];
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  expect(headers['webhook-signature']).toBe(`v1,${expected}`);
  expect(Math.abs(Date.now() / 1_000 - Number(timestamp))).toBeLessThan(60);
}

describe('a webhook', () => {
  it('is told, signed, that a person is wanted and that a run is over', async () => {
    const created = await send('POST', '', { url: receiver.url, description: 'pager' });
    expect(created).toMatchObject({ status: 201, body: { url: receiver.url, status: 'enabled' } });
    const { id, secret } = created.body;
    const waiting = await leased();
    await inStore.park(waiting, 1, await inStore.turnWithCalls(waiting, 1, 1));
    const failed = await leased();
    await inStore.end(failed, 1, runEnd('model_error', { message: 'no model' }));
    await eventually(() => expect(receiver.received).toHaveLength(2), { timeoutMs: 10_000 });
    for (const one of receiver.received) expectSigned(one, secret);
    const told = receiver.received.map(({ body }) => JSON.parse(body)).sort((a, b) => (a.type < b.type ? -1 : 1));
    expect(told).toMatchObject([
      { type: 'run.failed', data: { runId: failed.runId, payload: { stopReason: 'model_error' } } },
      { type: 'tool.approval_required', timestamp: expect.any(String), data: { runId: waiting.runId } },
    ]);
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
    await eventually(async () => {
      const { items } = (await send('GET', `/${id}/deliveries`)).body;
      expect(items).toMatchObject([
        { state: 'delivered', attempts: 1, responseStatus: 204 },
        { state: 'delivered', attempts: 1 },
      ]);
    });
    expect((await send('GET', `/${id}`)).body).toMatchObject({ lastSuccessAt: expect.any(String) });
    expect(JSON.stringify((await send('GET', '')).body)).not.toContain(secret);
    expect((await send('DELETE', `/${id}`)).status).toBe(204);
    expect((await send('GET', `/${id}`)).status).toBe(404);
    expect((await send('DELETE', `/${id}`)).status).toBe(404);
    const audit = await observer.query('SELECT action, detail FROM admin_audit WHERE target = $1 ORDER BY id', [id]);
    expect(audit.rows.map(({ action }) => action)).toEqual(['webhook.created', 'webhook.deleted']);
    // The path of such an address is often its secret.
    expect(JSON.stringify(audit.rows)).not.toContain('/hook');
  });

  it('is created once under an idempotency key, and shows the same secret to its creator again', async () => {
    const key = { 'idempotency-key': 'once' };
    const body = { url: receiver.url, events: ['run.completed'] };
    const first = await send('POST', '', body, key);
    const again = await send('POST', '', body, key);
    expect(again).toMatchObject({ status: 201, body: first.body });
    expect((await send('GET', '')).body.items).toHaveLength(1);
  });

  it.each([
    [{ url: 'http://example.com/' }, '/url'],
    [{ url: 'https://example.com/', events: ['turn.started'] }, '/events/0'],
    [{ url: 'https://example.com/', events: [] }, '/events'],
    [{ url: 'https://example.com/', secret: 'mine' }, '/secret'],
  ])('%j is refused at its path', async (body, path) => {
    expect(await send('POST', '', body)).toMatchObject({ status: 422, body: { errors: [{ path }] } });
  });
});

describe('the sender', () => {
  const sender = (more: Partial<Parameters<typeof startWebhookSender>[0]> = {}): void => {
    senders.push(
      startWebhookSender({
        texts: new SecretTexts(undefined),
        webhooks: own.store.webhooks,
        leading: () => true,
        clock: clockOf({ now: Date.now }, { keepsAlive: false }),
        logger: createLogger({ app: 'gateway', level: 'silent', format: 'json' }),
        allowPrivate: true,
        intervalMs: 20,
        timeoutMs: 15_000,
        retryDelaysMs: [20, 40],
        ...more,
      }),
    );
  };
  let ownDatabase: TestDatabase;
  let own: TestGateway;
  let leader: Store;
  let leadership: Leadership | undefined;

  beforeAll(async () => {
    ownDatabase = await createTestDatabase();
    // This gateway delivers nothing by itself: another process holds the lead.
    leader = await openStore({ url: ownDatabase.url, maxConnections: 2 });
    leadership = await leader.lead('reconciler');
    own = await startTestGateway(ownDatabase.url);
  });
  afterAll(async () => {
    await own.stop();
    await leadership?.release();
    await leader.close();
    await ownDatabase.drop();
  });
  beforeEach(async () => {
    tenant = await own.tenant(`sender ${randomUUID()}`);
    inStore = new StoreTenant(own.store, tenant.id);
  });
  afterEach(async () => {
    for (const { id } of await own.store.webhooks.list(tenant.id)) await own.store.webhooks.delete(tenant.id, id);
  });

  const create = (url = receiver.url) =>
    own.store.webhooks.create({
      tenantId: tenant.id,
      id: randomUUID(),
      url,
      events: ['run.completed'],
      secret: 'whsec_AAAA',
      createdBy: 'key',
    });
  const deliveries = async (webhookId: string) =>
    own.store.webhooks.deliveries({ tenantId: tenant.id, webhookId, limit: 10 });

  it.each([
    ['an error', [500, 503] as const, {}],
    ['silence', ['never'] as const, { timeoutMs: 2_000 }],
    ['a redirect', [302] as const, {}],
  ])('tries again after %s, under the same id, until it is taken', async (_, answers, patience) => {
    receiver.answers = [...answers];
    const { id } = await create();
    await ended();
    sender(patience);
    await eventually(async () => expect(await deliveries(id)).toMatchObject([{ state: 'delivered' }]));
    // At least once: a busy receiver may be asked again though it has taken it.
    expect(receiver.received.length).toBeGreaterThan(answers.length);
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(receiver.received.map(({ path }) => path)).not.toContain('/elsewhere');
  });

  it('gives up after the last attempt and disables a webhook that nothing came through', async () => {
    receiver.answers = [500, 500, 500];
    const { id } = await create();
    await ended();
    sender();
    await eventually(async () => expect(await deliveries(id)).toMatchObject([{ state: 'failed', attempts: 3 }]));
    expect(await own.store.webhooks.get(tenant.id, id)).toMatchObject({ status: 'disabled' });
    await ended();
    expect(await deliveries(id)).toHaveLength(1);
  });

  it('stops telling a receiver that is gone', async () => {
    receiver.answers = [410];
    const { id } = await create();
    await ended();
    sender();
    await eventually(async () =>
      expect(await own.store.webhooks.get(tenant.id, id)).toMatchObject({ status: 'disabled' }),
    );
    expect(receiver.received).toHaveLength(1);
  });

  it('reaches no private address, neither by number nor by name, and says so', async () => {
    const port = new URL(receiver.url).port;
    const byNumber = await create(`http://127.0.0.1:${port}/`);
    const byName = await create(`http://localhost:${port}/`);
    await ended();
    sender({ allowPrivate: false });
    for (const { id } of [byNumber, byName]) {
      await eventually(async () => {
        const [delivery] = await deliveries(id);
        expect(delivery).toMatchObject({ state: 'failed', error: expect.stringContaining('private network') });
      });
    }
    expect(receiver.received).toEqual([]);
  });

  it('delivers all of many, a hanging receiver beside it notwithstanding', async () => {
    const hanging = await Receiver.open();
    hanging.answers = Array.from({ length: 100 }, () => 'never' as const);
    await create(hanging.url);
    const { id } = await create();
    await Promise.all(Array.from({ length: 30 }, ended));
    sender({ timeoutMs: 2_000 });
    await eventually(() =>
      expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(30),
    );
    expect(id).toBeDefined();
    await Promise.all(senders.splice(0).map((one) => one.stop()));
    await hanging.close();
  });

  it('goes on where another was killed in mid-attempt', async () => {
    const { id } = await create();
    await ended();
    await awaitHorizon(observer);
    await own.store.webhooks.fanOut();
    expect(await own.store.webhooks.take({ limit: 9, perWebhook: 9, holdMs: 200, except: [] })).toHaveLength(1);
    sender();
    await eventually(async () => expect(await deliveries(id)).toMatchObject([{ state: 'delivered', attempts: 2 }]));
  });
});
