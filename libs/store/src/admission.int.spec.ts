import { randomUUID } from 'node:crypto';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('admission', () => {
  let store: Store;
  let close: () => Promise<void>;
  let observer: Client;

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });

  async function inFlight(tenant: TestTenant): Promise<number> {
    const { rows } = await observer.query<{ in_flight: number }>('SELECT in_flight FROM tenants WHERE id = $1', [
      tenant.tenantId,
    ]);
    return rows[0]?.in_flight ?? -1;
  }
  const statusOf = async (tenant: TestTenant, runId: string) => (await store.runs.get(tenant.tenantId, runId)).status;

  it('queues up to the cap and gives a freed slot to the oldest pending run', async () => {
    const tenant = await testTenant(store, 2);
    const sessions = await Promise.all(Array.from({ length: 4 }, () => tenant.session()));
    const runs = [];
    for (const sessionId of sessions) runs.push((await tenant.accept(sessionId)).run);
    expect(runs.map((run) => run.status)).toEqual(['queued', 'queued', 'pending', 'pending']);
    expect(await inFlight(tenant)).toBe(2);

    const [first, , third, fourth] = runs.map((run) => ({ runId: run.id, sessionId: run.sessionId }));
    if (first === undefined || third === undefined || fourth === undefined) throw new Error('missing run');
    await tenant.lease(first.runId);
    const left = await tenant.end(first, 1);
    expect(left.rings).toMatchObject([{ runId: third.runId, doorbell: 1, priority: 2 }]);
    expect(left.otherEvents).toMatchObject([
      { sessionId: third.sessionId, type: 'run.state_changed', payload: { from: 'pending', to: 'queued' } },
    ]);
    expect(await statusOf(tenant, fourth.runId)).toBe('pending');
    expect(await inFlight(tenant)).toBe(2);
  });

  it("prefers the session's own next run, in order, and says so in its ledger", async () => {
    const tenant = await testTenant(store, 1);
    const [mine, other] = [await tenant.session(), await tenant.session()];
    const first = await tenant.accept(mine);
    const elsewhere = await tenant.accept(other);
    const second = await tenant.accept(mine, { onBusy: 'enqueue' });
    const third = await tenant.accept(mine, { onBusy: 'enqueue' });
    await tenant.lease(first.run.id);
    const left = await tenant.end({ runId: first.run.id, sessionId: mine }, 1);
    expect(left.rings.map((ring) => ring.runId)).toEqual([second.run.id]);
    expect(left.events.map((event) => event.type)).toEqual(['run.completed', 'run.state_changed']);
    expect(await statusOf(tenant, elsewhere.run.id)).toBe('pending');
    expect(await statusOf(tenant, third.run.id)).toBe('pending');
  });

  it('hides the messages of later runs from a run, though they were stored earlier', async () => {
    const tenant = await testTenant(store);
    const sessionId = await tenant.session();
    const first = await tenant.accept(sessionId);
    await tenant.accept(sessionId, { onBusy: 'enqueue' });
    const snapshot = await tenant.lease(first.run.id);
    expect(snapshot.messages.map((message) => message.runId)).toEqual([first.run.id]);
  });

  it('frees the slot of a run that waits for approval, but not its session', async () => {
    const tenant = await testTenant(store, 1);
    const [mine, other] = [await tenant.session(), await tenant.session()];
    const first = await tenant.accept(mine);
    const run = { runId: first.run.id, sessionId: mine };
    const next = await tenant.accept(mine, { onBusy: 'enqueue' });
    const elsewhere = await tenant.accept(other);
    await tenant.lease(run.runId);
    const turn = await tenant.turnWithCalls(run, 1, 1);
    const approvalId = randomUUID();
    const left = await tenant.park(run, 1, turn, approvalId);
    expect(left.rings.map((ring) => ring.runId)).toEqual([elsewhere.run.id]);
    expect(await statusOf(tenant, next.run.id)).toBe('pending');

    const decided = await tenant.decide(approvalId, turn.callIds);
    expect(decided.ring).toMatchObject({ runId: run.runId, priority: 2 });
    expect(await inFlight(tenant)).toBe(2);

    // Over the cap: a run that ends hands its slot to nobody.
    await tenant.lease(elsewhere.run.id);
    const ended = await tenant.end({ runId: elsewhere.run.id, sessionId: other }, 1);
    expect(ended.rings).toEqual([]);
    expect(await inFlight(tenant)).toBe(1);
    await tenant.lease(run.runId);
    const last = await tenant.end(run, 2);
    expect(last.rings.map((ring) => ring.runId)).toEqual([next.run.id]);
  });

  it('keeps a pending run that is cancelled from passing a slot on', async () => {
    const tenant = await testTenant(store, 1);
    const [mine, other] = [await tenant.session(), await tenant.session()];
    await tenant.accept(mine);
    const pending = await tenant.accept(mine, { onBusy: 'enqueue' });
    await tenant.accept(other);
    const fenced = await store.runs.fence(pending.run.id, { running: false });
    if (fenced === undefined) throw new Error('not fenced');
    expect((await tenant.end(fenced, fenced.token)).rings).toEqual([]);
    expect(await inFlight(tenant)).toBe(1);
  });

  it('sweeps: recounts a wrong number and admits whom a raised cap lets in', async () => {
    const tenant = await testTenant(store, 1);
    const sessions = await Promise.all(Array.from({ length: 4 }, () => tenant.session()));
    const runs = [];
    for (const sessionId of sessions) runs.push((await tenant.accept(sessionId)).run);
    await observer.query('UPDATE tenants SET in_flight = 9, max_concurrent_runs = 3 WHERE id = $1', [tenant.tenantId]);
    expect((await store.runs.due()).tenants).toContain(tenant.tenantId);
    const admitted = await store.runs.admit(tenant.tenantId);
    expect(admitted.rings.map((ring) => ring.runId)).toEqual([runs[1]?.id, runs[2]?.id]);
    expect(admitted.events).toHaveLength(2);
    expect(await inFlight(tenant)).toBe(3);
    expect((await store.runs.due()).tenants).not.toContain(tenant.tenantId);
  });

  it('lets the sweep admit what a locked row kept from being promoted', async () => {
    const tenant = await testTenant(store);
    const sessionId = await tenant.session();
    const first = await tenant.accept(sessionId);
    const next = await tenant.accept(sessionId, { onBusy: 'enqueue' });
    await tenant.lease(first.run.id);
    await observer.query('BEGIN');
    await observer.query('SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [next.run.id]);
    const left = await tenant.end({ runId: first.run.id, sessionId }, 1);
    await observer.query('COMMIT');
    expect(left.rings).toEqual([]);
    expect((await store.runs.due()).tenants).toContain(tenant.tenantId);
    expect((await store.runs.admit(tenant.tenantId)).rings.map((ring) => ring.runId)).toEqual([next.run.id]);
  });

  it.each(['runs', 'sessions'])('waits for no other session: a locked row of %s is passed over', async (table) => {
    const tenant = await testTenant(store, 1);
    const [mine, other] = [await tenant.session(), await tenant.session()];
    const first = await tenant.accept(mine);
    const elsewhere = await tenant.accept(other);
    await tenant.lease(first.run.id);
    await observer.query('BEGIN');
    await observer.query(`SELECT 1 FROM ${table} WHERE id = $1 FOR UPDATE`, [
      table === 'runs' ? elsewhere.run.id : other,
    ]);
    const left = await tenant.end({ runId: first.run.id, sessionId: mine }, 1);
    await observer.query('COMMIT');
    expect(left).toMatchObject({ applied: true, rings: [] });
    expect(await inFlight(tenant)).toBe(0);
    expect((await store.runs.admit(tenant.tenantId)).rings.map((ring) => ring.runId)).toEqual([elsewhere.run.id]);
  });
});
