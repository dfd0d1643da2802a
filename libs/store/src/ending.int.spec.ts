import { randomUUID } from 'node:crypto';
import { runEnd } from '@codedock/domain';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('the end of a run', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let run: { runId: string; sessionId: string };

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    tenant = await testTenant(store);
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });
  beforeEach(async () => {
    const sessionId = await tenant.session();
    run = { sessionId, runId: (await tenant.accept(sessionId, { scratchpad: { a: 1 } })).run.id };
    await tenant.lease(run.runId);
  });
  const events = () =>
    store.ledger.since({ tenantId: tenant.tenantId, sessionId: run.sessionId, after: 0, limit: 1_000 });

  it('happens once: the first commit wins and the others learn how it ended', async () => {
    const fenced = await store.runs.fence(run.runId, { running: true });
    if (fenced === undefined) throw new Error('not fenced');
    const outcomes = await Promise.allSettled([
      tenant.end(run, 1, runEnd('completed')),
      ...Array.from({ length: 8 }, () => tenant.end(run, fenced.token, runEnd('cancelled'))),
      tenant.end(run, fenced.token, runEnd('timeout')),
    ]);
    const applied = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.applied);
    expect(applied).toHaveLength(1);
    const final = await store.runs.get(tenant.tenantId, run.runId);
    const ends = (await events())
      .filter((event) => event.type.startsWith('run.') && event.runId === run.runId)
      .slice(2);
    expect(ends.map((event) => event.type)).toEqual([`run.${final.status}`]);
    expect(final.lastSeq).toBe(ends[0]?.seq);
    expect(await tenant.end(run, 99, runEnd('max_turns'))).toEqual({
      applied: false,
      events: [],
      otherEvents: [],
      rings: [],
      end: { status: final.status, stopReason: final.stopReason },
    });
    expect((await store.runs.get(tenant.tenantId, run.runId)).stopReason).toBe(final.stopReason);
  });

  it('cannot have a second terminal event, whoever writes it', async () => {
    await tenant.end(run, 1);
    await expect(
      observer.query(
        `INSERT INTO events (session_id, seq, occurred_at, event_id, tenant_id, run_id, type, payload)
         VALUES ($1, 9999, now(), gen_random_uuid(), $2, $3, 'run.failed', '{}')`,
        [run.sessionId, tenant.tenantId, run.runId],
      ),
    ).rejects.toMatchObject({ code: '23505', constraint: 'events_one_end' });
    await expect(observer.query("UPDATE runs SET status = 'running' WHERE id = $1", [run.runId])).rejects.toMatchObject(
      { constraint: 'runs_end' },
    );
  });

  it('takes no further facts of the run, with a token or without', async () => {
    await tenant.end(run, 1);
    await expect(
      store.ledger.append(tenant.delta(run.sessionId, { runId: run.runId, token: 1 })),
    ).rejects.toMatchObject({ code: 'lease_lost' });
    await expect(store.ledger.append(tenant.delta(run.sessionId, { runId: run.runId }))).rejects.toMatchObject({
      code: 'run_ended',
    });
    await expect(store.ledger.append(tenant.delta(run.sessionId, undefined))).resolves.toMatchObject({ lastSeq: 4 });
  });

  it('settles what was open: executing becomes unknown and is told, the rest cancelled; the bag is gone', async () => {
    const turn = await tenant.turnWithCalls(run, 1, 2);
    const [executing, open] = turn.callIds;
    if (executing === undefined || open === undefined) throw new Error('no calls');
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token: 1 },
      events: [],
      changes: {
        calls: [{ id: executing, state: 'executing' }],
        executions: [{ callId: executing, n: 1, state: 'executing' }],
      },
    });
    const left = await tenant.end(run, 1, runEnd('timeout'));
    expect(left.events.map((event) => event.type)).toEqual(['tool.outcome_unknown', 'run.timed_out']);
    const calls = await store.toolCalls.list(tenant.tenantId, run.runId);
    expect(calls.map((call) => call.state)).toEqual(['unknown', 'cancelled']);
    const { executions } = await store.trace(tenant.tenantId, run.runId);
    expect(executions).toMatchObject([{ callId: executing, state: 'unknown' }]);
    expect(await store.runs.ending(run.runId)).toMatchObject({ scratchpad: {} });
  });

  it('voids the approval of a run that is cancelled while it waits', async () => {
    const turn = await tenant.turnWithCalls(run, 1, 1);
    const approvalId = randomUUID();
    await tenant.park(run, 1, turn, approvalId);
    const fenced = await store.runs.fence(run.runId, { running: false });
    if (fenced === undefined) throw new Error('not fenced');
    await tenant.end(fenced, fenced.token, runEnd('cancelled'));
    expect((await store.approvals.get(tenant.tenantId, approvalId)).status).toBe('void');
    await expect(tenant.decide(approvalId, turn.callIds)).rejects.toMatchObject({ code: 'approval_decided' });
  });

  it('refuses an end that is none, and a stop reason of another state', async () => {
    await expect(
      store.runs.leave({
        tenantId: tenant.tenantId,
        sessionId: run.sessionId,
        run: { runId: run.runId, token: 1 },
        events: [],
        to: { kind: 'end', end: { status: 'completed', stopReason: 'timeout' } },
      }),
    ).rejects.toMatchObject({ code: 'invariant_broken' });
    expect((await store.runs.get(tenant.tenantId, run.runId)).status).toBe('running');
  });
});
