import { randomUUID } from 'node:crypto';
import { runEnd } from '@codedock/domain';
import {
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  openEventStream,
  type TestDatabase,
} from '@codedock/testkit';
import { Client } from 'pg';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';
import { pruneOnce } from './prune.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new Client({ connectionString: database.url });
  await client.connect();
  gateway = await startTestGateway(database.url, { CODEDOCK_EVENT_RETENTION_DAYS: '400' });
  tenant = await gateway.tenant('retention');
});
afterAll(async () => {
  await client.end();
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const send = (method: string, path: string, body?: unknown) =>
  gateway.send(method, path, { key: tenant.key, ...(body === undefined ? {} : { body }) });
const open = (path: string, lastEventId?: string) =>
  openEventStream(`${gateway.url}${path}`, {
    headers: { authorization: `Bearer ${tenant.key}` },
    ...(lastEventId === undefined ? {} : { lastEventId }),
  });

const newSession = async (): Promise<string> => (await send('POST', '/v1/sessions', {})).body.id;

/** A run of one turnless reply, ended unless it shall stay open. */
async function runIn(sessionId: string, { ended = true } = {}): Promise<string> {
  const { body } = await send('POST', `/v1/sessions/${sessionId}/runs`, { content: 'x', onBusy: 'enqueue' });
  const taken = await gateway.store.runs.takeLease(body.runId, 60_000);
  if (taken.kind !== 'leased') throw new Error('the run is not queued');
  const run = { runId: body.runId as string, token: taken.snapshot.attempt };
  const target = { tenantId: tenant.id, sessionId, run };
  const deltas = Array.from({ length: 5 }, () => ({
    eventId: randomUUID(),
    type: 'assistant.delta' as const,
    payload: { text: 'x' },
  }));
  await gateway.store.ledger.append({ ...target, events: deltas });
  if (ended) await gateway.store.runs.leave({ ...target, events: [], to: { kind: 'end', end: runEnd('completed') } });
  return run.runId;
}

async function ageOf(sessionId: string, days: number): Promise<void> {
  await client.query("UPDATE events SET occurred_at = occurred_at - $2 * interval '1 day' WHERE session_id = $1", [
    sessionId,
    days,
  ]);
  await client.query("UPDATE sessions SET created_at = created_at - $2 * interval '1 day' WHERE id = $1", [
    sessionId,
    days,
  ]);
}

const prune = () =>
  pruneOnce({
    store: gateway.store,
    defaults: { events: 400 },
    signal: new AbortController().signal,
    onFailure: (error) => {
      throw error;
    },
  });

describe('how long things are kept', () => {
  it('is shown and set, the tenant over the installation', async () => {
    expect((await send('GET', '/v1/retention')).body).toEqual({
      events: { days: 400, source: 'installation' },
      audit: { days: null, source: 'none' },
      messages: { days: null, source: 'none' },
    });
    const set = await send('PUT', '/v1/retention', { events: 30, messages: 90 });
    expect(set).toMatchObject({ status: 200, body: { events: { days: 30, source: 'tenant' }, audit: { days: null } } });
    const back = await send('PUT', '/v1/retention', { events: null });
    expect(back.body).toEqual({
      events: { days: 400, source: 'installation' },
      audit: { days: null, source: 'none' },
      messages: { days: 90, source: 'tenant' },
    });
    await send('PUT', '/v1/retention', { messages: null });
  });

  it.each([
    [{ events: 0 }, '/events'],
    [{ audit: 36_501 }, '/audit'],
    [{ messages: 1.5 }, '/messages'],
    [{ messages: '7' }, '/messages'],
    [{ deliveries: 7 }, '/deliveries'],
  ])('%j is 422', async (body, at) => {
    const answer = await send('PUT', '/v1/retention', body);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request', errors: [{ path: at }] } });
  });
});

describe('events that are not kept any more', () => {
  it('are told of once, in their place; what is left follows without a gap', async () => {
    const sessionId = await newSession();
    const first = await runIn(sessionId);
    await ageOf(sessionId, 500);
    const gone = (await send('GET', `/v1/sessions/${sessionId}`)).body.lastSeq as number;
    const second = await runIn(sessionId);
    expect(await prune()).toMatchObject({ events: gone, messages: 0 });
    const session = (await send('GET', `/v1/sessions/${sessionId}`)).body;
    expect(session).toMatchObject({ prunedSeq: gone });

    const path = `/v1/sessions/${sessionId}/events`;
    const rest = Array.from({ length: session.lastSeq - gone }, (_, n) => String(gone + n + 1));
    for (const after of [0, 3]) {
      const stream = await open(`${path}?after=${after}`);
      await stream.waitFor((frame) => frame.id === String(session.lastSeq));
      expect(stream.frames.map(({ id }) => id)).toEqual([String(gone), ...rest]);
      expect(stream.frames[0]).toMatchObject({ event: 'events.pruned' });
      expect(JSON.parse(stream.frames[0]?.data ?? '')).toEqual({ sessionId, after, prunedSeq: gone });
      stream.close();
      await stream.over;
    }
    // A client that comes back with the frame's id is not told again, nor is one that had seen all that is gone.
    const again = await open(path, String(gone));
    await again.waitFor((frame) => frame.id === String(session.lastSeq));
    expect(again.frames.map(({ id }) => id)).toEqual(rest);
    // Live events follow the hole.
    const third = await runIn(sessionId);
    await again.waitFor((frame) => frame.event === 'run.completed' && JSON.parse(frame.data).runId === third);
    again.close();
    await again.over;

    // A run of which all is gone: told so, then over for good; one of which all is there is not told of it.
    const ofFirst = await open(`/v1/runs/${first}/events`);
    expect(await ofFirst.over).toBe('ended');
    expect(ofFirst.frames.map(({ event, id }) => ({ event, id }))).toEqual([
      { event: 'events.pruned', id: String(gone) },
    ]);
    expect((await open(`/v1/runs/${first}/events`, String(gone))).status).toBe(204);
    const ofSecond = await open(`/v1/runs/${second}/events?after=0`);
    expect(await ofSecond.over).toBe('ended');
    expect(ofSecond.frames.map(({ id }) => id)).toEqual(rest);

    const log = (await send('GET', `/v1/sessions/${sessionId}/event-log?after=0&limit=2`)).body;
    expect(log).toMatchObject({ prunedSeq: gone, nextAfter: gone + 2 });
    expect(log.items.map(({ seq }: { seq: number }) => seq)).toEqual([gone + 1, gone + 2]);
  });

  it('are deleted by a gateway that leads, without being asked to', async () => {
    const sessionId = await newSession();
    await runIn(sessionId);
    await ageOf(sessionId, 500);
    const other = await startTestGateway(database.url, { CODEDOCK_EVENT_RETENTION_DAYS: '400' });
    try {
      // The one that leads already is past its first pass; the next leader begins with one.
      await gateway.stop();
      gateway = other;
      await eventually(
        async () => {
          const { rows } = await client.query('SELECT 1 FROM events WHERE session_id = $1', [sessionId]);
          return rows.length === 0;
        },
        { timeoutMs: 30_000, what: 'the new leader to prune' },
      );
    } finally {
      if (gateway !== other) await other.stop();
    }
  });
});

describe('deleting a session', () => {
  it('ends the streams of it everywhere with a word, and it is 404 from then on', async () => {
    const second = await startTestGateway(database.url);
    try {
      const sessionId = await newSession();
      const runId = await runIn(sessionId);
      const streams = await Promise.all(
        [gateway, second].map(({ url }) =>
          openEventStream(`${url}/v1/sessions/${sessionId}/events`, {
            headers: { authorization: `Bearer ${tenant.key}` },
          }),
        ),
      );
      for (const stream of streams) await stream.waitFor(({ event }) => event === 'run.completed');
      expect(await send('DELETE', `/v1/sessions/${sessionId}`)).toMatchObject({ status: 204, body: undefined });
      for (const stream of streams) {
        expect(await stream.over).toBe('ended');
        const last = stream.frames.at(-1);
        expect({ event: last?.event, data: JSON.parse(last?.data ?? '') }).toEqual({
          event: 'session.deleted',
          data: { sessionId },
        });
      }
      for (const path of [
        `/v1/sessions/${sessionId}`,
        `/v1/sessions/${sessionId}/events`,
        `/v1/sessions/${sessionId}/messages`,
        `/v1/runs/${runId}`,
        `/v1/runs/${runId}/events`,
        `/v1/runs/${runId}/trace`,
      ]) {
        expect({ path, ...(await send('GET', path)).body }).toMatchObject({ path, status: 404, code: 'not_found' });
      }
      expect((await send('DELETE', `/v1/sessions/${sessionId}`)).status).toBe(404);
    } finally {
      await second.stop();
    }
  });

  it('is refused with its remedy while a run is not over, or cancels all of them first when that is asked for', async () => {
    const sessionId = await newSession();
    await runIn(sessionId, { ended: false });
    await send('POST', `/v1/sessions/${sessionId}/runs`, { content: 'waits', onBusy: 'enqueue' });
    const refused = await send('DELETE', `/v1/sessions/${sessionId}`);
    expect(refused).toMatchObject({ status: 409, body: { code: 'session_busy' } });
    expect(refused.body.detail).toContain('?cancel=true');
    expect((await send('GET', `/v1/sessions/${sessionId}`)).status).toBe(200);
    expect((await send('DELETE', `/v1/sessions/${sessionId}?cancel=maybe`)).status).toBe(422);
    expect((await send('DELETE', `/v1/sessions/${sessionId}?cancel=true`)).status).toBe(204);
    expect((await client.query('SELECT 1 FROM runs WHERE session_id = $1', [sessionId])).rows).toEqual([]);
  });

  it('of many rows is answered before they are gone, and they go all the same', async () => {
    const sessionId = await newSession();
    const runId = await runIn(sessionId);
    await client.query(
      `INSERT INTO hook_audit (tenant_id, session_id, run_id, gate, hook, outcome, started_ms, duration_ms, queue_ms)
       SELECT $1, $2, $3, 'beforeInput', 'x', 'continued', 0, 0, 0 FROM generate_series(1, 12000)`,
      [tenant.id, sessionId, runId],
    );
    const answer = await send('DELETE', `/v1/sessions/${sessionId}`);
    expect(answer).toMatchObject({ status: 202, body: { id: sessionId, status: 'deleting' } });
    expect((await send('GET', `/v1/sessions/${sessionId}`)).status).toBe(404);
    await eventually(
      async () => (await client.query('SELECT 1 FROM sessions WHERE id = $1', [sessionId])).rows.length === 0,
      { timeoutMs: 60_000, what: 'the rest to go in the background' },
    );
  }, 90_000);
});
