import { randomUUID } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { runEnd } from '@codedock/domain';
import {
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  openEventStream,
  type TestDatabase,
} from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateways: TestGateway[];
let tenant: TestTenant;
let front: RoundRobin;

/** A load balancer: each new connection goes to the next gateway. */
class RoundRobin {
  /** Connections that each gateway has got. */
  readonly got: number[];
  private readonly sockets = new Set<Socket>();
  private next = 0;
  private readonly server: Server;

  constructor(private readonly targets: readonly string[]) {
    this.got = targets.map(() => 0);
    this.server = createServer((client) => this.pass(client));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private pass(client: Socket): void {
    const index = this.next++ % this.targets.length;
    this.got[index] = (this.got[index] ?? 0) + 1;
    const { hostname, port } = new URL(this.targets[index] as string);
    const gateway = connect(Number(port), hostname);
    for (const [one, other] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      this.sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        this.sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  }
}

beforeAll(async () => {
  database = await createTestDatabase();
  gateways = [await startTestGateway(database.url), await startTestGateway(database.url)];
  tenant = await (gateways[0] as TestGateway).tenant('round-robin');
  front = new RoundRobin(gateways.map(({ url }) => url));
});
afterAll(async () => {
  await front.close();
  for (const gateway of gateways) expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

it('clients behind a round-robin see 1..n once each, whichever gateway they meet, and then 204', async () => {
  const url = await front.listen();
  const [first] = gateways as [TestGateway];
  const sessionId = (await first.send('POST', '/v1/sessions', { key: tenant.key, body: {} })).body.id as string;
  const { body } = await first.send('POST', `/v1/sessions/${sessionId}/runs`, {
    key: tenant.key,
    body: { content: 'x' },
  });
  const taken = await first.store.runs.takeLease(body.runId, 120_000);
  if (taken.kind !== 'leased') throw new Error('not leased');
  const target = { tenantId: tenant.id, sessionId, run: { runId: body.runId, token: taken.snapshot.attempt } };
  const path = `/v1/runs/${body.runId}/events`;

  const follow = async (seed: number): Promise<{ ids: number[]; connections: number }> => {
    const ids: number[] = [];
    for (let connections = 1; ; connections++) {
      const last = ids.at(-1);
      const stream = await openEventStream(`${url}${path}`, {
        headers: { authorization: `Bearer ${tenant.key}` },
        ...(last === undefined ? {} : { lastEventId: String(last) }),
      });
      if (stream.status === 204) return { ids, connections };
      expect(stream.status).toBe(200);
      const enough = 1 + ((seed * 7 + connections * 3) % 23);
      const from = last ?? 0;
      let ended = false;
      const over = stream.over.then(() => {
        ended = true;
      });
      await eventually(() => ended || stream.frames.some(({ id }) => Number(id) >= from + enough), {
        timeoutMs: 60_000,
        what: 'frames',
      });
      stream.close();
      await over;
      ids.push(...stream.frames.map(({ id }) => Number(id)));
    }
  };
  const clients = Promise.all(Array.from({ length: 6 }, (_, n) => follow(n + 1)));
  for (let n = 0; n < 40; n++) {
    const events = Array.from({ length: 3 }, () => ({
      eventId: randomUUID(),
      type: 'assistant.delta' as const,
      payload: { text: `${n}` },
    }));
    await first.store.ledger.append({ ...target, events });
  }
  await first.store.runs.leave({ ...target, events: [], to: { kind: 'end', end: runEnd('completed') } });
  const { lastSeq } = (await first.send('GET', `/v1/runs/${body.runId}`, { key: tenant.key })).body;
  const seen = await clients;
  for (const { ids } of seen) expect(ids).toEqual(Array.from({ length: lastSeq }, (_, n) => n + 1));
  // Both gateways had a part in it.
  for (const connections of front.got) expect(connections).toBeGreaterThan(6);
}, 120_000);
