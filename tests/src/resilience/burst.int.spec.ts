import { randomUUID } from 'node:crypto';
import { describeWithRedis, eventually, expectNoLeftovers, startRedis, type TestRedis } from '@codedock/testkit';
import { describeOnEachProfile } from '../profiles.js';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

const SESSIONS = 20;
const RUNS = 200;
const TERMINAL = ['completed', 'failed', 'cancelled', 'timed_out', 'blocked'];

/**
 * Posts all runs at once, spread over the sessions, as a client does that wants each of them once: an overloaded gateway
 * may say "not now" (503 with Retry-After), and the same key asks again.
 */
async function postAll(system: System, content: (n: number) => string): Promise<string[]> {
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.createSession()));
  await Promise.all(
    Array.from({ length: RUNS }, async (_, n) => {
      const headers = { 'idempotency-key': randomUUID() };
      const path = `/v1/sessions/${sessions[n % SESSIONS]}/runs`;
      const body = { content: content(n), onBusy: 'enqueue' };
      await eventually(
        async () => {
          const answer = await system.api<Record<string, unknown>>('POST', path, body, { headers });
          if (answer.status === 503) expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
          expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 201 });
        },
        { timeoutMs: 60_000, intervalMs: 500, what: `run ${n} to be accepted` },
      );
    }),
  );
  return sessions;
}

/** Waits until every accepted run has ended well and looks at every ledger. */
async function expectAllCompleted(system: System, sessions: readonly string[], timeoutMs: number): Promise<void> {
  await eventually(
    async () => {
      const { rows } = await system.db.query('SELECT status, count(*)::int AS n FROM runs GROUP BY status');
      expect(rows).toEqual([{ status: 'completed', n: RUNS }]);
    },
    { timeoutMs, intervalMs: 200, what: `${RUNS} runs to end` },
  );
  // One query: seqs are 1..n per session, and every run has one terminal event.
  const { rows } = await system.db.query(
    `SELECT session_id, count(*)::int AS events, min(seq)::int AS first, max(seq)::int AS last,
            count(DISTINCT seq)::int AS seqs,
            count(DISTINCT run_id) FILTER (WHERE type = ANY($1))::int AS ended,
            count(*) FILTER (WHERE type = ANY($1))::int AS ends
       FROM events GROUP BY session_id`,
    [TERMINAL.map((status) => `run.${status}`)],
  );
  expect(rows.map(({ session_id }) => session_id).sort()).toEqual([...sessions].sort());
  const perSession = RUNS / SESSIONS;
  for (const row of rows) {
    expect(row).toMatchObject({
      first: 1,
      last: row.events,
      seqs: row.events,
      ended: perSession,
      ends: perSession,
    });
  }
  // Never two at once in a session: each run's first event as its runner's comes after the former one's end.
  const { rows: overlaps } = await system.db.query(
    `SELECT a.id FROM runs a JOIN runs b ON b.session_id = a.session_id AND b.id <> a.id
      WHERE b.started_at > a.started_at AND b.started_at < a.ended_at`,
  );
  expect(overlaps).toEqual([]);
}

describeOnEachProfile('a burst of accepted runs', (profile) => {
  let system: System;
  beforeAll(async () => {
    system = await startSystem({ profile, runners: 2, env: { CODEDOCK_LOG_LEVEL: 'warn' } });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  it('ends every run, in order and without a gap in any ledger', async () => {
    const sessions = await postAll(system, (n) =>
      n % 3 === 0 ? fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'ok' }) : `hello ${n}`,
    );
    await expectAllCompleted(system, sessions, 120_000);
  }, 240_000);
});

describeWithRedis('Redis is emptied in mid-load', () => {
  let redis: TestRedis;
  let system: System;
  beforeAll(async () => {
    redis = await startRedis();
    system = await startSystem({
      profile: 'redis',
      redisUrl: redis.url,
      runners: 2,
      env: { CODEDOCK_LOG_LEVEL: 'warn' },
    });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await redis?.stop();
    await expectNoLeftovers();
  });

  it('FLUSHALL, over and over, loses no accepted run', async () => {
    let posted = false;
    const posting = postAll(system, () => fakeScript({ text: 'slowly', delayMs: 1_000 })).finally(() => {
      posted = true;
    });
    const completed = async () =>
      Number((await system.db.query(`SELECT count(*) AS n FROM runs WHERE status = 'completed'`)).rows[0].n);
    const marks: number[] = [];
    for (let done = 0; !posted || done < RUNS / 2; done = await completed()) {
      await redis.run('FLUSHALL');
      marks.push(done);
      await eventually(async () => (await completed()) >= Math.min(done + 5, RUNS), {
        timeoutMs: 60_000,
        what: 'runs to go on',
      });
    }
    const sessions = await posting;
    expect(marks.length).toBeGreaterThanOrEqual(2);
    await expectAllCompleted(system, sessions, 120_000);
  }, 300_000);
});
