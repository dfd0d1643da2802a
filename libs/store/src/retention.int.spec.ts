import { randomUUID } from 'node:crypto';
import { createTestStore, type TestTenant, testRecord, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';
import { INSTALLATION } from './installation.js';

let store: Store;
let client: Client;
let close: () => Promise<void>;
let tenant: TestTenant;

beforeAll(async () => {
  let url: string;
  ({ store, url, close } = await createTestStore());
  client = new Client({ connectionString: url });
  await client.connect();
});
beforeEach(async () => {
  tenant = await testTenant(store);
});
afterAll(async () => {
  await client.end();
  await close();
});

const count = async (table: string, sessionId: string): Promise<number> =>
  Number((await client.query(`SELECT count(*) FROM ${table} WHERE session_id = $1`, [sessionId])).rows[0].count);

/** Makes everything of a session so many days older. */
async function age(sessionId: string, days: number): Promise<void> {
  const older = `- ${days} * interval '1 day'`;
  for (const [table, column] of [
    ['events', 'occurred_at'],
    ['hook_audit', 'occurred_at'],
    ['messages', 'created_at'],
    ['runs', 'ended_at'],
  ]) {
    await client.query(`UPDATE ${table} SET ${column} = ${column} ${older} WHERE session_id = $1`, [sessionId]);
  }
  await client.query(`UPDATE sessions SET created_at = created_at ${older} WHERE id = $1`, [sessionId]);
}

/** A run with a turn of calls and an audit line; ended unless it shall stay open. */
async function runIn(sessionId: string, { ended = true } = {}): Promise<string> {
  const { run } = await tenant.accept(sessionId, {
    onBusy: 'enqueue',
    records: [{ record: testRecord(), site: { tenantId: tenant.tenantId, sessionId } }],
  });
  await tenant.lease(run.id);
  await tenant.turnWithCalls({ runId: run.id, sessionId }, 1, 1);
  if (ended) await tenant.end({ runId: run.id, sessionId }, 1);
  return run.id;
}

async function pruneAll(kind: 'pruneEvents' | 'pruneMessages', olderThanDays: number, limit = 1_000): Promise<number> {
  let pruned = 0;
  let after: string | undefined;
  do {
    const input = { tenantId: tenant.tenantId, olderThanDays, limit, ...(after === undefined ? {} : { after }) };
    const batch = await store.retention[kind](input);
    pruned += batch.pruned;
    after = batch.next;
  } while (after !== undefined);
  return pruned;
}

const seqsOf = async (sessionId: string) =>
  (await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 1_000 })).map(({ seq }) => seq);
const sessionOf = (sessionId: string) => store.sessions.get(tenant.tenantId, sessionId);

describe('events', () => {
  it('go from the front of each session, in batches of any size, and the session says up to where', async () => {
    const sessions = await Promise.all([tenant.session(), tenant.session(), tenant.session()]);
    for (const sessionId of sessions) {
      await runIn(sessionId);
      await age(sessionId, 10);
      await runIn(sessionId);
    }
    const before = await Promise.all(sessions.map(seqsOf));
    expect(await pruneAll('pruneEvents', 11)).toBe(0);
    const old = (before[0]?.length ?? 0) / 2;
    // Batches that end in the midst of a session go on there.
    expect(await pruneAll('pruneEvents', 9, 3)).toBe(old * 3);
    for (const sessionId of sessions) {
      const { lastSeq, prunedSeq } = await sessionOf(sessionId);
      expect({ lastSeq, prunedSeq }).toEqual({ lastSeq: old * 2, prunedSeq: old });
      expect(await seqsOf(sessionId)).toEqual(Array.from({ length: old }, (_, n) => old + n + 1));
      expect(await store.ledger.prunedSeq(tenant.tenantId, sessionId)).toBe(old);
    }
    expect(await pruneAll('pruneEvents', 9)).toBe(0);
    // What comes later goes on counting.
    const { events } = await tenant.accept(sessions[0] as string);
    expect(events[0]?.seq).toBe(old * 2 + 1);
  });

  it('of a run that is not over stay, and everything behind its first one', async () => {
    const sessionId = await tenant.session();
    await runIn(sessionId);
    const { lastSeq } = await sessionOf(sessionId);
    const runId = await runIn(sessionId, { ended: false });
    await age(sessionId, 10);
    expect(await pruneAll('pruneEvents', 1)).toBe(lastSeq);
    expect((await seqsOf(sessionId))[0]).toBe(lastSeq + 1);
    expect(await pruneAll('pruneEvents', 1)).toBe(0);
    await tenant.end({ runId, sessionId }, 1);
    await age(sessionId, 10);
    expect(await pruneAll('pruneEvents', 1)).toBeGreaterThan(0);
    expect(await seqsOf(sessionId)).toEqual([]);
  });

  it('of another tenant are not touched', async () => {
    const other = await testTenant(store);
    const sessionId = await other.session();
    await other.accept(sessionId).then(({ run }) => other.lease(run.id));
    await age(sessionId, 10);
    expect(await pruneAll('pruneEvents', 1)).toBe(0);
    expect(await count('events', sessionId)).toBeGreaterThan(0);
  });
});

describe('messages', () => {
  it('go with the calls and approvals of their run, whole runs at a time', async () => {
    const sessionId = await tenant.session();
    const first = await runIn(sessionId);
    const second = await runIn(sessionId);
    await age(sessionId, 10);
    const third = await runIn(sessionId);
    const ofRun = async (runId: string) => {
      const counts: Record<string, number> = {};
      for (const table of ['messages', 'tool_calls', 'turns']) {
        const { rows } = await client.query(`SELECT count(*) FROM ${table} WHERE run_id = $1`, [runId]);
        counts[table] = Number(rows[0].count);
      }
      return counts;
    };
    const whole = await ofRun(third);
    expect(whole['messages']).toBeGreaterThan(0);
    expect(whole['tool_calls']).toBe(1);
    const batch = { tenantId: tenant.tenantId, olderThanDays: 9, limit: 1 };
    // One message is asked for, one run is taken.
    expect((await store.retention.pruneMessages(batch)).pruned).toBe(whole['messages']);
    expect(await ofRun(first)).toEqual({ messages: 0, tool_calls: 0, turns: 1 });
    expect(await ofRun(second)).toEqual(whole);
    expect(await pruneAll('pruneMessages', 9)).toBe(whole['messages']);
    expect(await ofRun(second)).toEqual({ messages: 0, tool_calls: 0, turns: 1 });
    expect(await ofRun(third)).toEqual(whole);
    expect((await store.runs.get(tenant.tenantId, first)).status).toBe('completed');
  });

  it('stay while a run of the session is not over, since it reads all of them', async () => {
    const sessionId = await tenant.session();
    await runIn(sessionId);
    await age(sessionId, 10);
    const { run } = await tenant.accept(sessionId);
    expect(await pruneAll('pruneMessages', 9)).toBe(0);
    const taken = await store.runs.takeLease(run.id, 60_000);
    expect(taken).toMatchObject({ kind: 'leased' });
    expect(taken.kind === 'leased' && taken.snapshot.messages.length).toBeGreaterThan(1);
    await tenant.end({ runId: run.id, sessionId }, 1);
    expect(await pruneAll('pruneMessages', 9)).toBeGreaterThan(0);
  });

  it('that belong to no run go by their own age', async () => {
    const sessionId = await tenant.session();
    const notice = () =>
      store.notices.append({
        tenantId: tenant.tenantId,
        sessionId,
        text: 'n',
        messageId: randomUUID(),
        eventId: randomUUID(),
      });
    await notice();
    await age(sessionId, 10);
    await notice();
    expect(await pruneAll('pruneMessages', 9)).toBe(1);
    expect(await count('messages', sessionId)).toBe(1);
  });
});

describe('audit', () => {
  it('goes by age, but not that of a run that is not over', async () => {
    const sessionId = await tenant.session();
    await runIn(sessionId);
    const open = await runIn(sessionId, { ended: false });
    await age(sessionId, 10);
    await store.audit.admin({ tenantId: tenant.tenantId, actor: 'a', action: 'x', target: 't', detail: {} });
    await client.query("UPDATE admin_audit SET occurred_at = now() - interval '10 days' WHERE tenant_id = $1", [
      tenant.tenantId,
    ]);
    const input = { tenantId: tenant.tenantId, olderThanDays: 9, limit: 100 };
    expect(await store.retention.pruneAudit(input)).toBe(2);
    expect(await store.retention.pruneAudit(input)).toBe(0);
    const left = await store.audit.bySession({ tenantId: tenant.tenantId, sessionId, limit: 9 });
    expect(left.map(({ runId }) => runId)).toEqual([open]);
  });
});

describe('settings', () => {
  it('are set, taken away and audited, for one tenant alone', async () => {
    const { tenantId } = tenant;
    expect(await store.retention.days(tenantId)).toEqual({});
    const set = (days: Parameters<Store['retention']['setDays']>[0]['days']) =>
      store.retention.setDays({ tenantId, days, actor: 'admin' });
    expect(await set({ events: 30, audit: 365 })).toEqual({ events: 30, audit: 365 });
    expect(await set({ events: null, messages: 7 })).toEqual({ audit: 365, messages: 7 });
    expect(await set({})).toEqual({ audit: 365, messages: 7 });
    const all = await store.retention.tenants();
    expect(all.find((one) => one.tenantId === tenantId)?.days).toEqual({ audit: 365, messages: 7 });
    expect(all.find((one) => one.tenantId === INSTALLATION)?.days).toEqual({});
    const { rows } = await client.query('SELECT action, detail FROM admin_audit WHERE tenant_id = $1 ORDER BY id', [
      tenantId,
    ]);
    expect(rows).toEqual([
      { action: 'retention.set', detail: { events: 30, audit: 365 } },
      { action: 'retention.set', detail: { events: null, messages: 7 } },
    ]);
    await expect(store.retention.days(randomUUID())).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('what has expired', () => {
  it('goes, and nothing that has not', async () => {
    const claim = (key: string, ttlMs: number) =>
      store.idempotency.claim({
        tenantId: tenant.tenantId,
        route: 'POST /x',
        key,
        bodyDigest: 'd',
        ownerToken: 'o',
        ttlMs,
      });
    await claim('old', 0);
    await claim('new', 60_000);
    expect((await store.retention.pruneExpired(100)).idempotencyKeys).toBe(1);
    expect(await claim('new', 1)).toMatchObject({ kind: 'in_progress' });
    expect(await claim('old', 1)).toEqual({ kind: 'claimed' });
  });

  it('is memory, too, whose session is gone, and no other', async () => {
    const kept = await tenant.session();
    const owners = [
      { scope: 'session', owner: kept },
      { scope: 'session', owner: randomUUID() },
      { scope: 'user', owner: 'somebody' },
    ] as const;
    const all = owners.map((owner) => ({ tenantId: tenant.tenantId, ...owner }));
    for (const owner of all) await store.memory.upsert(owner, 'note', 'text');
    await store.retention.pruneOrphanedMemory();
    const left = await Promise.all(all.map((owner) => store.memory.get(owner, 'note')));
    expect(left.map((entry) => entry !== undefined)).toEqual([true, false, true]);
  });
});

describe('deleting a session', () => {
  const actor = { id: 'k', name: 'admin' };
  const tables = async () =>
    (
      await client.query<{ table_name: string }>(
        `SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
         WHERE c.column_name = 'session_id' AND c.table_schema = 'public' AND t.table_type = 'BASE TABLE'`,
      )
    ).rows.map((row) => row.table_name);

  it('is refused while a run is not over', async () => {
    const sessionId = await tenant.session();
    const runId = await runIn(sessionId, { ended: false });
    const input = { tenantId: tenant.tenantId, sessionId, actor };
    await expect(store.sessionDeletion.begin(input)).rejects.toMatchObject({ code: 'session_busy' });
    await tenant.end({ runId, sessionId }, 1);
    await expect(store.sessionDeletion.begin(input)).resolves.toBeUndefined();
  });

  it('hides it at once and leaves nothing of it in any table but who and when', async () => {
    const { tenantId } = tenant;
    const sessionId = await tenant.session();
    const kept = await tenant.session();
    const keptRun = await runIn(kept);
    const runId = await runIn(sessionId);
    const { run } = await tenant.accept(sessionId);
    const where = { runId: run.id, sessionId };
    await tenant.lease(run.id);
    const turn = await tenant.turnWithCalls(where, 1, 1);
    const approvalId = randomUUID();
    await tenant.park(where, 1, turn, approvalId);
    await tenant.decide(approvalId, turn.callIds, 'deny');
    const taken = await store.runs.takeLease(run.id, 60_000);
    if (taken.kind !== 'leased') throw new Error('not leased');
    await tenant.end(where, taken.snapshot.attempt);
    await store.memory.upsert({ tenantId, scope: 'session', owner: sessionId }, 'note', 'text');
    await store.memory.upsert({ tenantId, scope: 'session', owner: kept }, 'note', 'text');
    await store.streamTokens
      .create({ tenantId, keyId: tenant.keyId, hash: randomUUID(), sessionId, ttlMs: 1_000 })
      .catch(() => undefined);

    const before = await count('events', sessionId);
    await store.sessionDeletion.begin({ tenantId, sessionId, actor });
    await store.sessionDeletion.begin({ tenantId, sessionId, actor });
    const missing = { code: 'not_found' };
    await expect(store.sessions.get(tenantId, sessionId)).rejects.toMatchObject(missing);
    await expect(store.runs.get(tenantId, runId)).rejects.toMatchObject(missing);
    await expect(store.trace(tenantId, runId)).rejects.toMatchObject(missing);
    await expect(store.approvals.get(tenantId, approvalId)).rejects.toMatchObject(missing);
    await expect(store.toolCalls.get(tenantId, turn.callIds[0] as string)).rejects.toMatchObject(missing);
    await expect(tenant.accept(sessionId)).rejects.toMatchObject({ code: 'session_archived' });
    expect((await store.sessions.list({ tenantId, limit: 9 })).map(({ id }) => id)).toEqual([kept]);
    expect((await store.runs.list({ tenantId, limit: 9 })).map(({ id }) => id)).toEqual([keptRun]);
    expect(await store.approvals.list({ tenantId, limit: 9 })).toEqual([]);
    expect(await store.sessions.tenantOf(sessionId)).toBeUndefined();
    expect([...(await store.ledger.lastSeqs([sessionId, kept])).keys()]).toEqual([kept]);
    expect(await store.sessionDeletion.pending(9)).toContainEqual({ tenantId, sessionId });

    let batches = 0;
    while (!(await store.sessionDeletion.some(tenantId, sessionId, 5))) batches += 1;
    expect(batches).toBeGreaterThan(3);
    expect(await store.sessionDeletion.some(tenantId, sessionId, 5)).toBe(true);
    for (const table of await tables())
      expect({ table, rows: await count(table, sessionId) }).toEqual({ table, rows: 0 });
    expect(await store.memory.get({ tenantId, scope: 'session', owner: sessionId }, 'note')).toBeUndefined();
    expect(await store.memory.get({ tenantId, scope: 'session', owner: kept }, 'note')).toBeDefined();
    expect(await count('events', kept)).toBeGreaterThan(0);
    const { rows } = await client.query(
      "SELECT actor, target, detail FROM admin_audit WHERE action = 'session.deleted' AND tenant_id = $1",
      [tenantId],
    );
    expect(rows).toEqual([{ actor: 'admin', target: sessionId, detail: { keyId: 'k', runs: 2, events: before } }]);
  });
});
