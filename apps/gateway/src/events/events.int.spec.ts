import { randomUUID } from 'node:crypto';
import { type NewLedgerEvent, runEnd } from '@codedock/domain';
import {
  createTestDatabase,
  type EventStream,
  expectNoLeftovers,
  openEventStream,
  type TestDatabase,
} from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let stopped = false;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('events');
});

afterAll(async () => {
  if (!stopped) await gateway.stop();
  await database.drop();
  await expectNoLeftovers();
});

interface Live {
  readonly sessionId: string;
  readonly runId: string;
  /** Commits deltas without pushing them, as a runner does that dies after its commit. */
  commit(count: number): Promise<void>;
  end(): Promise<void>;
}

async function liveRun(sessionId?: string): Promise<Live> {
  const session = sessionId ?? (await gateway.send('POST', '/v1/sessions', { key: tenant.key, body: {} })).body.id;
  const { body } = await gateway.send('POST', `/v1/sessions/${session}/runs`, {
    key: tenant.key,
    body: { content: 'x' },
  });
  const taken = await gateway.store.runs.takeLease(body.runId, 60_000);
  if (taken.kind !== 'leased') throw new Error('the run is not queued');
  const run = { runId: body.runId as string, token: taken.snapshot.attempt };
  const target = { tenantId: tenant.id, sessionId: session as string };
  const delta = (): NewLedgerEvent => ({ eventId: randomUUID(), type: 'assistant.delta', payload: { text: 'x\n\ny' } });
  return {
    sessionId: session,
    runId: run.runId,
    commit: async (count) => {
      await gateway.store.ledger.append({ ...target, run, events: Array.from({ length: count }, delta) });
    },
    end: async () => {
      await gateway.store.runs.leave({ ...target, run, events: [], to: { kind: 'end', end: runEnd('completed') } });
    },
  };
}

function open(path: string, lastEventId?: string): Promise<EventStream> {
  return openEventStream(`${gateway.url}${path}`, {
    headers: { authorization: `Bearer ${tenant.key}` },
    ...(lastEventId === undefined ? {} : { lastEventId }),
  });
}

const idsOf = (stream: EventStream) => stream.frames.map((frame) => Number(frame.id));
const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe("a session's stream", () => {
  it('replays, then follows: every seq once, commits whose push was lost within the sweep', async () => {
    const live = await liveRun();
    await live.commit(450);
    const stream = await open(`/v1/sessions/${live.sessionId}/events`);
    expect(stream.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
    });
    const { body: session } = await gateway.send('GET', `/v1/sessions/${live.sessionId}`, { key: tenant.key });
    await stream.waitFor((frame) => frame.id === String(session.lastSeq));
    await live.commit(3);
    await stream.waitFor((frame) => frame.id === String(session.lastSeq + 3), 4_000);
    expect(idsOf(stream)).toEqual(upTo(session.lastSeq + 3));
    const frame = JSON.parse(stream.frames.at(-1)?.data ?? '');
    expect(frame).toMatchObject({
      sessionId: live.sessionId,
      runId: live.runId,
      seq: session.lastSeq + 3,
      type: 'assistant.delta',
      payload: { text: 'x\n\ny' },
    });
    stream.close();
    await stream.over;
  });

  it('gives each client exactly 1..n, wherever it reconnects', async () => {
    const live = await liveRun();
    const target = 200;
    const client = async (seed: number): Promise<number[]> => {
      const seen: number[] = [];
      while ((seen.at(-1) ?? 0) < target) {
        const stream = await open(
          `/v1/sessions/${live.sessionId}/events?after=0`,
          seen.length === 0 ? undefined : String(seen.at(-1)),
        );
        const until = (seen.at(-1) ?? 0) + 1 + ((seed * 7 + seen.length) % 40);
        await stream.waitFor((frame) => Number(frame.id) >= Math.min(until, target));
        stream.close();
        await stream.over;
        seen.push(...idsOf(stream));
      }
      return seen;
    };
    const clients = Promise.all([1, 2, 3, 4, 5].map(client));
    for (let committed = 0; committed < 220; committed += 20) await live.commit(20);
    for (const seen of await clients) {
      expect(seen.slice(0, target)).toEqual(upTo(target));
    }
  });

  it('goes on over a run that ends and the next one', async () => {
    const live = await liveRun();
    const stream = await open(`/v1/sessions/${live.sessionId}/events`);
    await live.end();
    await stream.waitFor((frame) => frame.event === 'run.completed', 4_000);
    await liveRun(live.sessionId);
    const frame = await stream.waitFor(
      (one) => one.event === 'run.created' && JSON.parse(one.data).runId !== live.runId,
      4_000,
    );
    expect(idsOf(stream)).toEqual(upTo(Math.max(...idsOf(stream))));
    expect(Number(frame.id)).toBeGreaterThan(1);
    stream.close();
    await stream.over;
  });

  it('of an archived session is replayed and ended, and 204 past its end', async () => {
    const live = await liveRun();
    await live.end();
    const { body: archived } = await gateway.send('POST', `/v1/sessions/${live.sessionId}/archive`, {
      key: tenant.key,
    });
    const stream = await open(`/v1/sessions/${live.sessionId}/events`);
    expect(await stream.over).toBe('ended');
    expect(idsOf(stream)).toEqual(upTo(archived.lastSeq));
    for (const at of [archived.lastSeq, archived.lastSeq + 10]) {
      const over = await open(`/v1/sessions/${live.sessionId}/events`, String(at));
      expect(over.status).toBe(204);
      expect(await over.over).toBe('ended');
    }
  });
});

describe("a run's stream", () => {
  it('shows its own events alone, closes after its end, and is 204 past it', async () => {
    const first = await liveRun();
    await first.end();
    const live = await liveRun(first.sessionId);
    const stream = await open(`/v1/runs/${live.runId}/events`);
    await stream.waitFor((frame) => frame.event === 'run.created');
    await live.commit(2);
    await live.end();
    expect(await stream.over).toBe('ended');
    expect(new Set(stream.frames.map((frame) => JSON.parse(frame.data).runId))).toEqual(new Set([live.runId]));
    expect(stream.frames.at(-1)?.event).toBe('run.completed');
    const last = stream.frames.at(-1)?.id ?? '';
    const again = await open(`/v1/runs/${live.runId}/events?after=0`);
    expect(await again.over).toBe('ended');
    expect(idsOf(again)).toEqual(idsOf(stream));
    const tail = await open(`/v1/runs/${live.runId}/events`, String(Number(last) - 1));
    expect(await tail.over).toBe('ended');
    expect(tail.frames.map((frame) => frame.event)).toEqual(['run.completed']);
    const over = await open(`/v1/runs/${live.runId}/events`, last);
    expect(over.status).toBe(204);
    expect(await over.over).toBe('ended');
  });

  it('cancels nothing when its client goes away', async () => {
    const live = await liveRun();
    const stream = await open(`/v1/runs/${live.runId}/events`);
    await stream.waitFor((frame) => frame.event === 'run.created');
    stream.close();
    await stream.over;
    expect((await gateway.send('GET', `/v1/runs/${live.runId}`, { key: tenant.key })).body).toMatchObject({
      status: 'running',
      cancelRequested: false,
    });
  });
});

describe('the event log', () => {
  it('is read a page at a time', async () => {
    const live = await liveRun();
    await live.commit(10);
    const seen: number[] = [];
    let after: number | null = 0;
    do {
      const page: { body: { items: { seq: number }[]; nextAfter: number | null } } = await gateway.send(
        'GET',
        `/v1/sessions/${live.sessionId}/event-log?limit=5&after=${after}`,
        { key: tenant.key },
      );
      seen.push(...page.body.items.map((event) => event.seq));
      after = page.body.nextAfter;
    } while (after !== null);
    expect(seen).toEqual(upTo(seen.length));
    expect(seen.length).toBeGreaterThan(10);
  });
});

describe('stopping the gateway', () => {
  it('ends open streams in good order', async () => {
    const live = await liveRun();
    const streams = await Promise.all([
      open(`/v1/sessions/${live.sessionId}/events`),
      open(`/v1/runs/${live.runId}/events`),
    ]);
    await Promise.all(streams.map((stream) => stream.waitFor((frame) => frame.event === 'run.created')));
    stopped = true;
    expect(await gateway.stop()).toBe(true);
    expect(await Promise.all(streams.map((stream) => stream.over))).toEqual(['ended', 'ended']);
  });
});
