import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { runEnd } from '@codedock/domain';
import { createTestDatabase, eventually, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { Client } from 'pg';
import { startTestGateway, type TestGateway } from '../testing/start-gateway.js';
import { signedHeaders } from '../webhooks/signature.js';
import { secretCipher } from './secret-cipher.js';

const [FORMER, NEWEST] = [randomBytes(32).toString('hex'), randomBytes(32).toString('base64')];
const PLUGIN_SECRET = `secret-${randomBytes(16).toString('hex')}`;

let database: TestDatabase;
let client: Client;
let running: TestGateway | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await running?.stop();
  await client.end();
  await database.drop();
  await expectNoLeftovers();
});

/** One gateway at a time, on the same database. */
async function restarted(environment: Record<string, string>): Promise<TestGateway> {
  await running?.stop();
  running = await startTestGateway(database.url, { CODEDOCK_WEBHOOK_ALLOW_PRIVATE: 'true', ...environment });
  return running;
}

const stored = async () =>
  (await client.query<{ secret: string }>('SELECT secret FROM webhooks')).rows[0]?.secret ?? '';
const pluginKeyIds = async () =>
  (await client.query<{ key_id: string }>('SELECT key_id FROM plugin_secrets')).rows.map((row) => row.key_id);

interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

async function receiver() {
  const deliveries: Delivery[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    deliveries.push({ headers: request.headers, body });
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    deliveries,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function signedWith(secret: string, { headers, body }: Delivery): boolean {
  const id = String(headers['webhook-id']);
  const sentAtMs = Number(headers['webhook-timestamp']) * 1_000;
  return signedHeaders(secret, { id, sentAtMs, body })['webhook-signature'] === headers['webhook-signature'];
}

it('secrets outlive a change of the encryption key, wherever they came from', async () => {
  const target = await receiver();
  try {
    // Without a key a webhook's secret is stored as it is, as all were once.
    let gateway = await restarted({});
    const tenant = await gateway.tenant('secrets');
    const send = (method: string, path: string, body?: unknown, headers = {}) =>
      gateway.send(method, path, { key: tenant.key, headers, ...(body === undefined ? {} : { body }) });
    const idempotent = { 'idempotency-key': randomUUID() };
    const made = await send('POST', '/v1/webhooks', { url: target.url }, idempotent);
    expect(made.status).toBe(201);
    const secret = made.body.secret as string;
    expect(await stored()).toBe(secret);
    expect((await send('POST', '/v1/webhooks', { url: target.url }, idempotent)).body).toEqual(made.body);
    expect(await send('POST', '/v1/secrets/reencrypt')).toMatchObject({ status: 409, body: { code: 'conflict' } });

    const delivered = async () => {
      const before = target.deliveries.length;
      const session = (await send('POST', '/v1/sessions', {})).body.id;
      const { runId } = (await send('POST', `/v1/sessions/${session}/runs`, { content: 'x' })).body;
      const taken = await gateway.store.runs.takeLease(runId, 60_000);
      if (taken.kind !== 'leased') throw new Error('not leased');
      await gateway.store.runs.leave({
        tenantId: tenant.id,
        sessionId: session,
        run: { runId, token: taken.snapshot.attempt },
        events: [],
        to: { kind: 'end', end: runEnd('completed') },
      });
      await eventually(() => target.deliveries.length > before, { timeoutMs: 30_000, what: 'a delivery' });
      return target.deliveries.at(-1) as Delivery;
    };
    expect(signedWith(secret, await delivered())).toBe(true);

    // With a key it is encrypted when that is asked for, and signs as before.
    gateway = await restarted({ CODEDOCK_SECRETS_KEY: FORMER });
    expect((await send('GET', '/v1/secrets')).body.items).toEqual([
      { kind: 'webhook', keyId: null, count: 1, readable: true },
    ]);
    const sealed = await send('POST', '/v1/secrets/reencrypt');
    expect(sealed).toMatchObject({ status: 200, body: { webhooks: 1, pluginSecrets: 0, unreadable: 0 } });
    expect(await stored()).toMatch(new RegExp(`^sealed:${sealed.body.keyId}:`));
    expect(await stored()).not.toContain(secret.slice(6));
    expect(signedWith(secret, await delivered())).toBe(true);
    const second = { 'idempotency-key': randomUUID() };
    const other = await send('POST', '/v1/webhooks', { url: target.url, description: 'second' }, second);
    expect((await send('POST', '/v1/webhooks', { url: target.url, description: 'second' }, second)).body).toEqual(
      other.body,
    );
    const { rows } = await client.query<{ row: string }>('SELECT t::text AS row FROM idempotency_keys t');
    expect(rows.map(({ row }) => row).join()).not.toContain(other.body.secret);
    await send('DELETE', `/v1/webhooks/${other.body.id}`);

    // The key changes: what the former one sealed is opened by it, what is new is under the newest, then all is.
    gateway = await restarted({ CODEDOCK_SECRETS_KEY: NEWEST, CODEDOCK_SECRETS_KEYS_ACCEPTED: FORMER });
    expect(signedWith(secret, await delivered())).toBe(true);
    const keys = (await send('GET', '/v1/secrets')).body;
    expect(keys.accepted).toEqual([sealed.body.keyId]);
    const moved = (await send('POST', '/v1/secrets/reencrypt')).body;
    expect(moved).toMatchObject({ keyId: keys.keyId, webhooks: 1, unreadable: 0 });
    expect((await send('POST', '/v1/secrets/reencrypt')).body).toMatchObject({ webhooks: 0, pluginSecrets: 0 });
    const acts = (await send('GET', '/v1/audit?action=secrets.reencrypted')).body.items;
    expect(acts).toHaveLength(3);

    // The former key is not needed any more; a wrong one is told of, and changes nothing.
    gateway = await restarted({ CODEDOCK_SECRETS_KEY: NEWEST });
    expect(signedWith(secret, await delivered())).toBe(true);
    gateway = await restarted({ CODEDOCK_SECRETS_KEY: FORMER });
    expect((await send('GET', '/v1/secrets')).body.items).toEqual([
      { kind: 'webhook', keyId: keys.keyId, count: 1, readable: false },
    ]);
    expect((await send('POST', '/v1/secrets/reencrypt')).body).toMatchObject({ webhooks: 0, unreadable: 1 });
    expect(await stored()).toMatch(new RegExp(`^sealed:${keys.keyId}:`));
  } finally {
    await target.close();
  }
}, 180_000);

it('secrets of plugins are put under the newest key, and one that was changed in the database is left alone', async () => {
  const gateway = await restarted({ CODEDOCK_SECRETS_KEY: NEWEST, CODEDOCK_SECRETS_KEYS_ACCEPTED: FORMER });
  const tenant = await gateway.tenant('plugins');
  const former = secretCipher(FORMER);
  const newest = secretCipher(NEWEST);
  const put = (key: string, text: string, place = key) =>
    gateway.store.pluginValues.setSecret({
      tenantId: tenant.id,
      plugin: 'notes',
      key,
      actor: 'test',
      sealed: former.seal(text, { owner: tenant.id, plugin: 'notes', key: place }),
    });
  for (let n = 0; n < 5; n++) await put(`key-${n}`, `${PLUGIN_SECRET}-${n}`);
  await put('moved', 'x', 'elsewhere');
  const done = await gateway.send('POST', '/v1/secrets/reencrypt', { key: tenant.key });
  expect(done.body).toMatchObject({ pluginSecrets: 5, unreadable: 1 });
  expect((await pluginKeyIds()).sort()).toEqual([...Array(5).fill(newest.keyId), former.keyId].sort());
  for (let n = 0; n < 5; n++) {
    const place = { tenantId: tenant.id, plugin: 'notes', key: `key-${n}` };
    const sealed = await gateway.store.pluginValues.secret(place);
    if (sealed === undefined) throw new Error('gone');
    expect(newest.open(sealed, { owner: tenant.id, plugin: 'notes', key: place.key })).toBe(`${PLUGIN_SECRET}-${n}`);
  }
});
