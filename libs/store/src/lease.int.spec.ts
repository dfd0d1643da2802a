import { createTestStore, type TestTenant, testEvent, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('leases', () => {
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
    run = { sessionId, runId: (await tenant.accept(sessionId)).run.id };
  });
  const expire = () =>
    observer.query("UPDATE runs SET lease_until = lease_until - interval '1 hour' WHERE id = $1", [run.runId]);

  it('gives nothing while a lease lives, nor for a terminal or a missing run', async () => {
    await tenant.lease(run.runId);
    expect(await store.runs.takeLease(run.runId, 15_000)).toEqual({ kind: 'nothing' });
    await tenant.end(run, 1);
    expect(await store.runs.takeLease(run.runId, 15_000)).toEqual({ kind: 'nothing' });
    expect(await store.runs.takeLease('01900000-0000-7000-8000-000000000000', 15_000)).toEqual({ kind: 'nothing' });
    expect(await store.runs.takeLease('no id', 15_000)).toEqual({ kind: 'nothing' });
  });

  it('is taken by one of many', async () => {
    const taken = await Promise.all(Array.from({ length: 16 }, () => store.runs.takeLease(run.runId, 15_000)));
    expect(taken.filter((lease) => lease.kind === 'leased')).toHaveLength(1);
  });

  it('is prolonged and seen lost by heartbeats, with the cancel flag', async () => {
    await tenant.lease(run.runId);
    await expire();
    expect(await store.runs.heartbeat(run.runId, 1, 15_000)).toEqual({ held: true, cancelRequested: false });
    expect(await store.runs.takeLease(run.runId, 15_000)).toEqual({ kind: 'nothing' });
    await store.runs.requestCancel({ tenantId: tenant.tenantId, runId: run.runId, actor: 'me' });
    expect(await store.runs.heartbeat(run.runId, 1, 15_000)).toEqual({ held: true, cancelRequested: true });
    await expire();
    expect(await tenant.lease(run.runId)).toMatchObject({ attempt: 2, cancelRequested: true });
    expect(await store.runs.heartbeat(run.runId, 1, 15_000)).toEqual({ held: false, cancelRequested: false });
  });

  it('gives up a run after five attempts without progress: the sixth lease is for ending it', async () => {
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      expect((await tenant.lease(run.runId)).attempt).toBe(attempt);
      await expire();
    }
    expect(await store.runs.takeLease(run.runId, 15_000)).toMatchObject({
      kind: 'crash_loop',
      snapshot: { attempt: 6 },
    });
  });

  it('counts anew after progress, and no hand-back', async () => {
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      await tenant.lease(run.runId);
      await expire();
    }
    await observer.query('UPDATE runs SET idle_attempts = 4 WHERE id = $1', [run.runId]);
    await tenant.lease(run.runId);
    const handed = await store.runs.handBack(run.runId, 6);
    expect(handed?.ring).toMatchObject({ runId: run.runId, doorbell: 2 });
    expect(handed?.events).toMatchObject([{ type: 'run.state_changed', payload: { from: 'running', to: 'queued' } }]);
    expect((await tenant.lease(run.runId)).attempt).toBe(7);
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token: 7 },
      events: [testEvent('turn.started', { iteration: 1, tools: [] })],
      changes: { run: { progress: true } },
    });
    for (let attempt = 8; attempt <= 12; attempt += 1) {
      await expire();
      expect((await tenant.lease(run.runId)).attempt).toBe(attempt);
    }
    await expire();
    expect((await store.runs.takeLease(run.runId, 1)).kind).toBe('crash_loop');
  });

  it('is over once handed back: the same attempt writes nothing more', async () => {
    await tenant.lease(run.runId);
    await store.runs.handBack(run.runId, 1);
    await expect(
      store.ledger.append(tenant.delta(run.sessionId, { runId: run.runId, token: 1 })),
    ).rejects.toMatchObject({
      code: 'lease_lost',
    });
    await expect(tenant.end(run, 1)).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await store.runs.handBack(run.runId, 1)).toBeUndefined();
  });

  it('can be taken by force, from a runner only when asked to', async () => {
    const idle = await store.runs.fence(run.runId, { running: false });
    expect(idle).toMatchObject({ token: 1, status: 'queued', executing: [] });
    expect(await store.runs.takeLease(run.runId, 15_000)).toEqual({ kind: 'nothing' });
    await expire();
    await tenant.lease(run.runId);
    expect(await store.runs.fence(run.runId, { running: false })).toBeUndefined();
    const turn = await tenant.turnWithCalls(run, 2, 1);
    const [callId] = turn.callIds;
    if (callId === undefined) throw new Error('no call');
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token: 2 },
      events: [],
      changes: { calls: [{ id: callId, state: 'executing' }], executions: [{ callId, n: 1, state: 'executing' }] },
    });
    expect(await store.runs.fence(run.runId, { running: true })).toMatchObject({ token: 3, executing: [callId] });
    expect(await store.runs.heartbeat(run.runId, 2, 15_000)).toMatchObject({ held: false });
  });

  it('adds up wall time over attempts, without the time between them', async () => {
    await tenant.lease(run.runId);
    await observer.query(
      "UPDATE runs SET leased_at = now() - interval '10 seconds', lease_until = now() - interval '7 seconds' WHERE id = $1",
      [run.runId],
    );
    const { elapsedMs } = await tenant.lease(run.runId);
    expect(elapsedMs).toBe(3_000);
  });

  it('is rung for again when it has expired, at once and then every 2 s', async () => {
    const rung = async () => (await store.runs.due()).rings.filter((ring) => ring.runId === run.runId);
    const age = (seconds: number) =>
      observer.query("UPDATE runs SET rung_at = now() - $2 * interval '1 second' WHERE id = $1", [run.runId, seconds]);
    await age(100);
    // A queued run is not due: whether its ring waits is asked of the queue.
    expect(await rung()).toEqual([]);
    await tenant.lease(run.runId);
    expect(await rung()).toEqual([]);
    await expire();
    expect(await rung()).toMatchObject([{ doorbell: 2 }]);
    expect(await rung()).toEqual([]);
    await age(3);
    expect(await rung()).toMatchObject([{ doorbell: 3 }]);
  });

  it('of a queued run that nobody has taken is rung for again only under the doorbell that was lost', async () => {
    const untaken = async () =>
      (await store.runs.untaken({ after: 0, limit: 1_000 })).runs.filter(({ runId }) => runId === run.runId);
    expect(await untaken()).toEqual([]);
    await observer.query("UPDATE runs SET rung_at = now() - interval '6 seconds' WHERE id = $1", [run.runId]);
    const [found] = await untaken();
    expect(found).toMatchObject({ doorbell: 1 });
    const { queued, runs } = await store.runs.untaken({ after: found?.position ?? 0, limit: 1_000 });
    expect(queued).toBeGreaterThan(0);
    expect(runs.map(({ runId }) => runId)).not.toContain(run.runId);
    expect(await store.runs.ringAgain([{ runId: run.runId, doorbell: 1 }])).toMatchObject([
      { runId: run.runId, doorbell: 2 },
    ]);
    expect(await store.runs.ringAgain([{ runId: run.runId, doorbell: 1 }])).toEqual([]);
    await tenant.lease(run.runId);
    expect(await store.runs.ringAgain([{ runId: run.runId, doorbell: 2 }])).toEqual([]);
  });
});
