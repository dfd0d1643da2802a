import { eventually, expectNoLeftovers } from '@codedock/testkit';
import pg from 'pg';
import { type EventView, fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

/** Short enough that a dead runner is replaced within a test. */
const LEASE = { CODEDOCK_LEASE_TTL: '2s', CODEDOCK_LEASE_HEARTBEAT: '400ms' };
const LONG = fakeScript({ delayMs: 1_500, toolCalls: [{ name: 'ping' }] }, { text: 'first' });

let system: System;

beforeAll(async () => {
  system = await startSystem({ env: LEASE, runnerEnv: { RUNNER_DRAIN_TIMEOUT: '500ms' } });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await expectNoLeftovers();
});

interface Message {
  readonly role: string;
  readonly runId?: string;
  readonly content: { readonly text?: string };
}

const send = (sessionId: string, body: object) =>
  system.api<{ run: RunView; code?: string }>('POST', `/v1/sessions/${sessionId}/runs`, body);
const cancel = (runId: string) => system.api<RunView>('POST', `/v1/runs/${runId}/cancel`);
const said = async (sessionId: string, runId: string) => {
  const { body } = await system.api<{ items: Message[] }>('GET', `/v1/sessions/${sessionId}/messages`);
  return body.items
    .filter((message) => message.runId === runId && message.role === 'assistant')
    .map(({ content }) => content.text)
    .filter((text) => text !== '');
};
const running = (runId: string) => system.waitForRun(runId, ({ status }) => status === 'running');
const changes = (events: readonly EventView[], runId: string) =>
  events
    .filter((event) => event.runId === runId && event.type === 'run.state_changed')
    .map(({ payload }) => `${payload['from']} → ${payload['to']}`);
/** The runs in the order of their first and last events after they were queued. */
function expectOneAfterTheOther(events: readonly EventView[], runIds: readonly string[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  let after = 0;
  for (const runId of runIds) {
    const executed = events.filter(({ runId: of, attempt }) => of === runId && attempt !== undefined);
    expect(executed[0]?.seq).toBeGreaterThan(after);
    after = executed.at(-1)?.seq ?? Number.POSITIVE_INFINITY;
  }
}

describe('input to a busy session', () => {
  it('is refused by default, and taken in order with enqueue; an active run sees nothing of it', async () => {
    const sessionId = await system.createSession();
    const first = await system.startRun(sessionId, { content: LONG });
    expect(await send(sessionId, { content: 'hello' })).toMatchObject({ status: 409, body: { code: 'session_busy' } });
    await running(first.id);
    const rest: RunView[] = [];
    for (const text of ['second', 'third', 'fourth']) {
      rest.push(await system.startRun(sessionId, { content: fakeScript({ text }), onBusy: 'enqueue' }));
    }
    expect(rest.map(({ status }) => status)).toEqual(['pending', 'pending', 'pending']);
    for (const { id } of rest) expect(await system.waitForEnd(id)).toMatchObject({ status: 'completed' });
    // The fake model follows the last user message it sees: each run saw its own, and none that was sent later.
    expect(await said(sessionId, first.id)).toEqual(['first']);
    for (const [index, text] of ['second', 'third', 'fourth'].entries()) {
      expect(await said(sessionId, rest[index]?.id ?? '')).toEqual([text]);
    }
    const events = await system.events(sessionId);
    expectOneAfterTheOther(events, [first.id, ...rest.map(({ id }) => id)]);
    expect(changes(events, rest[0]?.id ?? '')).toEqual(['pending → queued', 'queued → running']);
  }, 40_000);

  it('a pending run is cancelled at once; the others go on', async () => {
    const sessionId = await system.createSession();
    const first = await system.startRun(sessionId, { content: LONG });
    const second = await system.startRun(sessionId, { content: fakeScript({ text: 'never' }), onBusy: 'enqueue' });
    const third = await system.startRun(sessionId, { content: fakeScript({ text: 'third' }), onBusy: 'enqueue' });
    expect(await cancel(second.id)).toMatchObject({ status: 200, body: { status: 'cancelled' } });
    expect(await system.waitForEnd(third.id)).toMatchObject({ status: 'completed' });
    expect(await system.waitForEnd(first.id)).toMatchObject({ status: 'completed' });
    const events = await system.events(sessionId);
    expect(events.filter(({ runId }) => runId === second.id).map(({ type }) => type)).toEqual([
      'run.created',
      'run.cancelled',
    ]);
    expectOneAfterTheOther(events, [first.id, third.id]);
  }, 40_000);

  it('interrupt cancels the active run and keeps the order of those that wait', async () => {
    const sessionId = await system.createSession();
    const first = await system.startRun(sessionId, { content: fakeScript({ hang: true }) });
    await running(first.id);
    const second = await system.startRun(sessionId, { content: fakeScript({ text: 'second' }), onBusy: 'enqueue' });
    const third = await system.startRun(sessionId, { content: fakeScript({ text: 'third' }), onBusy: 'interrupt' });
    expect(third.status).toBe('pending');
    expect(await system.waitForEnd(first.id, 5_000)).toMatchObject({ status: 'cancelled', stopReason: 'interrupted' });
    for (const { id } of [second, third]) expect(await system.waitForEnd(id)).toMatchObject({ status: 'completed' });
    expectOneAfterTheOther(await system.events(sessionId), [second.id, third.id]);
  }, 40_000);
});

it('order is kept when a runner is killed between promotion and doorbell', async () => {
  const sessionId = await system.createSession();
  const first = await system.startRun(sessionId, { content: fakeScript({ delayMs: 2_500, text: 'first' }) });
  const second = await system.startRun(sessionId, { content: fakeScript({ text: 'second' }), onBusy: 'enqueue' });
  const third = await system.startRun(sessionId, { content: fakeScript({ text: 'third' }), onBusy: 'enqueue' });
  await running(first.id);
  // Nobody can ring: what is committed from now on has no doorbell.
  const blocker = new pg.Client({ connectionString: system.databaseUrl });
  await blocker.connect();
  await blocker.query('BEGIN; LOCK TABLE bullmq.job IN ACCESS EXCLUSIVE MODE');
  await system.waitForRun(second.id, ({ status }) => status === 'queued');
  for (const runner of system.runners) if (!runner.hasExited()) await runner.kill();
  // What the dead had sent already must not be done for them.
  await eventually(async () => {
    const { rowCount } = await system.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name LIKE 'codedock-queue%' AND wait_event_type = 'Lock'`,
    );
    return rowCount === 0;
  });
  await blocker.query('ROLLBACK');
  await blocker.end();
  await system.startRunner();
  for (const { id } of [second, third]) {
    expect(await system.waitForEnd(id, 30_000)).toMatchObject({ status: 'completed' });
  }
  expect(await said(sessionId, second.id)).toEqual(['second']);
  expect(await said(sessionId, third.id)).toEqual(['third']);
  const events = await system.events(sessionId);
  expectOneAfterTheOther(events, [first.id, second.id, third.id]);
  expect(changes(events, second.id)).toEqual(['pending → queued', 'queued → running']);
}, 90_000);
