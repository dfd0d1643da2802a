import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

/** Two plain connections that can be made to wait for each other. */
describe('the fence under a real lock wait', () => {
  let store: Store;
  let url: string;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let holder: Client;
  let stale: Client;

  beforeAll(async () => {
    ({ store, url, close } = await createTestStore());
    tenant = await testTenant(store);
  });
  afterAll(() => close());
  beforeEach(async () => {
    holder = new Client({ connectionString: url });
    stale = new Client({ connectionString: url });
    await Promise.all([holder.connect(), stale.connect()]);
  });
  afterEach(async () => {
    await Promise.all([holder.end(), stale.end()]);
  });

  async function waiting(client: Client): Promise<void> {
    const pid = (client as unknown as { processID: number }).processID;
    for (;;) {
      const { rows } = await holder.query<{ waits: boolean }>(
        "SELECT coalesce(wait_event_type = 'Lock', false) AS waits FROM pg_stat_activity WHERE pid = $1",
        [pid],
      );
      // The statistics of a transaction are a snapshot: it is cleared so that the next look is a new one.
      await holder.query('SELECT pg_stat_clear_snapshot()');
      if (rows[0]?.waits) return;
    }
  }

  it('refuses a stale token that waited for the run row while its successor took the lease', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id, 1);
    const batch = JSON.stringify(tenant.delta(sessionId, { runId: run.id, token: 1 }));

    await holder.query('BEGIN');
    await holder.query('SELECT codedock_take_lease($1, 15000)', [run.id]);
    const late = stale.query('SELECT codedock_append($1::jsonb)', [batch]).then(
      () => 'accepted',
      (error: { code: string; hint: string }) => `${error.code} ${error.hint}`,
    );
    await waiting(stale);
    await holder.query('COMMIT');

    expect(await late).toBe('CD001 lease_lost');
    expect(await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 2, limit: 10 })).toEqual([]);
  });

  it('lets a holder that waits for the session row keep its successor out until it has written', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id, 1);
    const batch = JSON.stringify(tenant.delta(sessionId, { runId: run.id, token: 1 }));

    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [sessionId]);
    const written = stale.query('SELECT codedock_append($1::jsonb)', [batch]);
    await waiting(stale);
    const successor = store.runs.takeLease(run.id, 15_000);
    await holder.query('COMMIT');
    await written;
    const taken = await successor;

    expect(taken).toMatchObject({ kind: 'leased', snapshot: { attempt: 2 } });
    await expect(store.ledger.append(tenant.delta(sessionId, { runId: run.id, token: 1 }))).rejects.toMatchObject({
      code: 'lease_lost',
    });
  });

  it('shows why: a token in the WHERE clause accepts the stale writer', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id, 1);

    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE', [sessionId]);
    const naive = stale.query(
      `UPDATE sessions SET last_seq = last_seq + 1
       WHERE id = $1 AND EXISTS (SELECT 1 FROM runs WHERE id = $2 AND lease_token = 1)`,
      [sessionId, run.id],
    );
    await waiting(stale);
    const taken = await store.runs.takeLease(run.id, 15_000);
    await holder.query('COMMIT');

    expect(taken).toMatchObject({ kind: 'leased', snapshot: { attempt: 2 } });
    expect((await naive).rowCount).toBe(1);
  });
});
