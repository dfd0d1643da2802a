import { randomUUID } from 'node:crypto';
import type { AgentProfile } from '@codedock/domain';
import { createTestStore, TEST_CONFIG, type TestTenant, testRecord, testTenant } from '@codedock/testkit';
import type { Store } from './contract.js';

describe('plain aggregates', () => {
  let store: Store;
  let tenant: TestTenant;
  let other: TestTenant;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ store, close } = await createTestStore());
    tenant = await testTenant(store);
    other = await testTenant(store);
  });
  afterAll(() => close());

  it('is ready on a migrated database', async () => {
    await expect(store.ready()).resolves.toBeUndefined();
  });

  describe('another tenant', () => {
    it('finds nothing by any id', async () => {
      const sessionId = await tenant.session();
      const { run } = await tenant.accept(sessionId, {
        records: [{ record: testRecord(), site: { tenantId: tenant.tenantId, sessionId } }],
      });
      await tenant.lease(run.id);
      const where = { runId: run.id, sessionId };
      const turn = await tenant.turnWithCalls(where, 1, 1);
      const approvalId = randomUUID();
      await tenant.park(where, 1, turn, approvalId);
      const tenantId = other.tenantId;
      const missing = { code: 'not_found' };
      await expect(store.sessions.get(tenantId, sessionId)).rejects.toMatchObject(missing);
      await expect(store.sessions.archive(tenantId, sessionId)).rejects.toMatchObject(missing);
      await expect(store.runs.get(tenantId, run.id)).rejects.toMatchObject(missing);
      await expect(store.runs.requestCancel({ tenantId, runId: run.id, actor: 'x' })).rejects.toMatchObject(missing);
      await expect(store.trace(tenantId, run.id)).rejects.toMatchObject(missing);
      await expect(store.approvals.get(tenantId, approvalId)).rejects.toMatchObject(missing);
      await expect(other.decide(approvalId, turn.callIds)).rejects.toMatchObject(missing);
      await expect(store.toolCalls.get(tenantId, turn.callIds[0] ?? '')).rejects.toMatchObject(missing);
      await expect(other.accept(sessionId)).rejects.toMatchObject(missing);
      await expect(store.ledger.append(other.delta(sessionId, undefined))).rejects.toMatchObject(missing);
      await expect(store.ledger.append(other.delta(sessionId, { runId: run.id }))).rejects.toMatchObject(missing);
      expect(await store.runs.list({ tenantId, sessionId, limit: 5 })).toEqual([]);
      expect(await store.ledger.since({ tenantId, sessionId, after: 0, limit: 5 })).toEqual([]);
      expect(await store.messages.list({ tenantId, sessionId, limit: 5 })).toEqual([]);
      expect(await store.audit.byRun({ tenantId, runId: run.id, limit: 5 })).toEqual([]);
      expect(await store.audit.bySession({ tenantId, sessionId, limit: 5 })).toEqual([]);
      expect(await store.approvals.list({ tenantId, limit: 5 })).toEqual([]);
      expect(await store.toolCalls.list(tenantId, run.id)).toEqual([]);
      // And it is all there for its own.
      expect(await store.audit.byRun({ tenantId: tenant.tenantId, runId: run.id, limit: 5 })).toHaveLength(1);
      expect(await store.audit.bySession({ tenantId: tenant.tenantId, sessionId, limit: 5 })).toHaveLength(1);
    });
  });

  it('keeps sessions: created, listed newest first in pages, archived', async () => {
    const owner = await testTenant(store);
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.unshift(await owner.session());
    const page = await store.sessions.list({ tenantId: owner.tenantId, limit: 2 });
    expect(page.map((session) => session.id)).toEqual(ids.slice(0, 2));
    const rest = await store.sessions.list({ tenantId: owner.tenantId, limit: 2, before: ids[1] ?? '' });
    expect(rest.map((session) => session.id)).toEqual(ids.slice(2));

    const [sessionId] = ids;
    if (sessionId === undefined) throw new Error('no session');
    const { run } = await owner.accept(sessionId);
    await expect(store.sessions.archive(owner.tenantId, sessionId)).rejects.toMatchObject({ code: 'session_busy' });
    await owner.lease(run.id);
    await owner.end({ runId: run.id, sessionId }, 1);
    const archived = await store.sessions.archive(owner.tenantId, sessionId);
    expect(archived).toMatchObject({ status: 'archived' });
    expect(await store.sessions.archive(owner.tenantId, sessionId)).toEqual(archived);
    await expect(owner.accept(sessionId)).rejects.toMatchObject({ code: 'session_archived' });
    await expect(store.sessions.get(owner.tenantId, 'no id')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('lists runs newest first in pages', async () => {
    const sessionId = await tenant.session();
    const made: string[] = [];
    for (let n = 0; n < 3; n += 1) made.unshift((await tenant.accept(sessionId, { onBusy: 'enqueue' })).run.id);
    const list = (before?: string) =>
      store.runs.list({ tenantId: tenant.tenantId, sessionId, limit: 2, ...(before === undefined ? {} : { before }) });
    expect((await list()).map((run) => run.id)).toEqual(made.slice(0, 2));
    expect((await list(made[1])).map((run) => run.id)).toEqual(made.slice(2));
    const pending = await store.runs.list({ tenantId: tenant.tenantId, sessionId, status: 'pending', limit: 5 });
    expect(pending.map((run) => run.id)).toEqual(made.slice(0, 2));
    expect(pending.every((run) => run.position !== undefined)).toBe(true);
    expect(await store.runs.counts()).toMatchObject({ queued: expect.any(Number), expiredLeases: 0 });
    expect((await store.runs.counts()).pending).toBeGreaterThanOrEqual(2);
  });

  it('appends notices with and without a run; they are in no context', async () => {
    const sessionId = await tenant.session();
    const notice = (runId?: string) =>
      store.notices.append({
        tenantId: tenant.tenantId,
        sessionId,
        ...(runId === undefined ? {} : { runId }),
        text: 'note',
        plugin: 'redact',
        messageId: randomUUID(),
        eventId: randomUUID(),
      });
    await notice();
    const { run } = await tenant.accept(sessionId);
    const { events } = await notice(run.id);
    expect(events).toMatchObject([
      {
        type: 'message.notice',
        runId: run.id,
        payload: { plugin: 'redact', message: { kind: 'notice', eventSeq: 3 } },
      },
    ]);
    expect((await tenant.lease(run.id)).messages.map((message) => message.role)).toEqual(['user']);
    await tenant.end({ runId: run.id, sessionId }, 1);
    await expect(notice(run.id)).rejects.toMatchObject({ code: 'run_ended' });
    const listed = await store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 10 });
    expect(listed.map((message) => message.kind)).toEqual(['notice', undefined, 'notice']);
  });

  it('authenticates live keys only', async () => {
    const create = (name: string, hash: string, expiresAt?: string) =>
      store.keys.create({
        id: randomUUID(),
        tenantId: tenant.tenantId,
        name,
        hash,
        scopes: ['runs', 'approvals'],
        ...(expiresAt === undefined ? {} : { expiresAt }),
      });
    const key = await create('ci', 'hash-1');
    expect(await store.keys.authenticate('hash-1')).toMatchObject(key);
    expect(await store.keys.authenticate('hash-2')).toBeUndefined();
    await expect(create('ci', 'hash-3')).rejects.toMatchObject({ code: 'conflict' });
    await create('old', 'hash-4', new Date(Date.now() - 1_000).toISOString());
    expect(await store.keys.authenticate('hash-4')).toBeUndefined();
    await expect(store.keys.revoke(other.tenantId, key.id, 'me')).rejects.toMatchObject({ code: 'not_found' });
    const revoked = await store.keys.revoke(tenant.tenantId, key.id, 'me');
    expect(revoked.revokedAt).toBeDefined();
    expect(await store.keys.revoke(tenant.tenantId, key.id, 'me')).toEqual(revoked);
    expect(await store.keys.authenticate('hash-1')).toBeUndefined();
    await create('ci', 'hash-5');
    expect((await store.keys.list(tenant.tenantId)).map(({ name }) => name)).toEqual(['ci', 'old', 'ci']);
    expect(await store.keys.list(other.tenantId)).toEqual([]);
  });

  it('keeps memory apart by tenant, scope and owner, and finds it by text', async () => {
    const mine = { tenantId: tenant.tenantId, scope: 'user', owner: 'ada' } as const;
    await store.memory.upsert(mine, 'colour', 'Deep Blue');
    await store.memory.upsert(mine, 'food', '100% rice_');
    expect((await store.memory.upsert(mine, 'colour', 'Light Blue')).text).toBe('Light Blue');
    expect(await store.memory.get(mine, 'colour')).toMatchObject({ name: 'colour', text: 'Light Blue' });
    expect(await store.memory.get({ ...mine, owner: 'bob' }, 'colour')).toBeUndefined();
    expect(await store.memory.get({ ...mine, tenantId: other.tenantId }, 'colour')).toBeUndefined();
    const found = async (query: string) => (await store.memory.search(mine, query, 10)).map(({ name }) => name);
    expect(await found('blue')).toEqual(['colour']);
    expect(await found('COL')).toEqual(['colour']);
    expect(await found('0%')).toEqual(['food']);
    expect(await found('t_b')).toEqual([]);
  });

  it('makes the installation’s profiles equal to a file’s; tenants see them', async () => {
    const profile = (name: string): AgentProfile => ({ ...TEST_CONFIG, name, modes: { fast: { tools: [] } } });
    await store.agents.upsertFromFile([profile('b'), profile('a')]);
    expect((await store.agents.list(tenant.tenantId)).map(({ name }) => name)).toEqual(['a', 'b']);
    expect(await store.agents.get(tenant.tenantId, 'a')).toEqual(profile('a'));
    await store.agents.upsertFromFile([{ ...profile('b'), systemPrompt: 'new' }]);
    expect(await store.agents.get(tenant.tenantId, 'a')).toBeUndefined();
    expect((await store.agents.get(other.tenantId, 'b'))?.systemPrompt).toBe('new');
  });

  it('raises the plugin epoch for changes only, and never goes back to an older snapshot', async () => {
    const { epoch } = await store.plugins.desired();
    const act = { plugin: 'redact', actor: 'me', tenantId: tenant.tenantId };
    expect(await store.plugins.disable(act)).toEqual({ epoch: epoch + 1, disabled: ['redact'] });
    expect(await store.plugins.disable(act)).toEqual({ epoch: epoch + 1, disabled: ['redact'] });
    expect(await store.plugins.enable(act)).toEqual({ epoch: epoch + 2, disabled: [] });
    expect(await store.plugins.enable(act)).toEqual({ epoch: epoch + 2, disabled: [] });
    expect(await store.plugins.raiseEpoch('deployment')).toEqual({ epoch: epoch + 3, disabled: [] });
    expect(await store.plugins.loadSnapshot()).toBeUndefined();
    await store.plugins.saveSnapshot(3, { ports: [3] });
    await store.plugins.saveSnapshot(2, { ports: [2] });
    expect(await store.plugins.loadSnapshot()).toEqual({ epoch: 3, snapshot: { ports: [3] } });
  });

  it('has one leader per name', async () => {
    const first = await store.lead('test');
    expect(first?.held).toBe(true);
    expect(await store.lead('test')).toBeUndefined();
    await first?.release();
    const second = await store.lead('test');
    expect(second?.held).toBe(true);
    await second?.release();
    expect(second?.held).toBe(false);
  });

  it('ensures a tenant by name and keeps the installation out of the list', async () => {
    const made = await store.tenants.ensure({ id: randomUUID(), name: 'acme', maxConcurrentRuns: 3 });
    expect(await store.tenants.ensure({ id: randomUUID(), name: 'acme' })).toEqual(made);
    expect(await store.tenants.findByName('acme')).toEqual(made);
    expect((await store.tenants.list()).map(({ name }) => name)).not.toContain('installation');
    expect(await store.tenants.setLimits(made.id, { maxConcurrentRuns: null })).toEqual({ id: made.id, name: 'acme' });
    expect(await store.tenants.setLimits(made.id, { requestsPerSecond: 7 })).toMatchObject({ requestsPerSecond: 7 });
    await expect(store.tenants.setLimits(randomUUID(), { maxConcurrentRuns: 1 })).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});
