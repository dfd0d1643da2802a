import { randomUUID } from 'node:crypto';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import type { Store } from './contract.js';
import { INSTALLATION } from './installation.js';

const plugin = 'notes';

describe('values of plugins', () => {
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

  const of = (key: string, tenantId = tenant.tenantId) => ({ tenantId, plugin, key });
  const change = (key: string) => ({ ...of(key), actor: 'ann' });

  it("has a tenant's setting lie over the installation's", async () => {
    const values = store.pluginValues;
    expect(await values.setting(of('a'))).toBeUndefined();
    await values.setSetting({ ...change('a'), global: true, value: { deep: [1, null] } });
    expect(await values.setting(of('a'))).toEqual({ value: { deep: [1, null] } });
    expect(await values.setting(of('a', other.tenantId))).toEqual({ value: { deep: [1, null] } });
    await values.setSetting({ ...change('a'), value: null });
    expect(await values.setting(of('a'))).toEqual({ value: null });
    expect(await values.setting({ ...of('a'), plugin: 'another' })).toBeUndefined();
    expect(await values.settings({ tenantId: tenant.tenantId, plugin })).toMatchObject([
      { key: 'a', scope: 'tenant', value: null, updatedBy: 'ann' },
      { key: 'a', scope: 'global', value: { deep: [1, null] } },
    ]);
    expect(await values.removeSetting(change('a'))).toBe(true);
    expect(await values.removeSetting(change('a'))).toBe(false);
    expect(await values.setting(of('a'))).toEqual({ value: { deep: [1, null] } });
  });

  it('keeps secrets as they were sealed, and tells whose they are', async () => {
    const values = store.pluginValues;
    const sealed = (text: string) => ({ keyId: 'k1', bytes: Buffer.from(text) });
    await values.setSecret({ ...change('s'), global: true, sealed: sealed('shared') });
    expect(await values.secret(of('s'))).toEqual({ keyId: 'k1', bytes: Buffer.from('shared'), owner: INSTALLATION });
    await values.setSecret({ ...change('s'), sealed: sealed('own') });
    expect(await values.secret(of('s'))).toMatchObject({ bytes: Buffer.from('own'), owner: tenant.tenantId });
    expect(await values.secret(of('s', other.tenantId))).toMatchObject({ bytes: Buffer.from('shared') });
    expect(await values.secrets({ tenantId: tenant.tenantId, plugin })).toMatchObject([
      { key: 's', scope: 'tenant' },
      { key: 's', scope: 'global' },
    ]);
    expect(await store.secrets.counts()).toEqual([{ kind: 'plugin', keyId: 'k1', count: 2 }]);
    expect(await values.removeSecret(change('s'))).toBe(true);
    expect(await values.secret(of('s'))).toMatchObject({ owner: INSTALLATION });
  });
});

describe('what a session keeps for plugins', () => {
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

  it('knows whose it is, and the names of its active tools', async () => {
    const { tenantId } = tenant;
    const sessionId = await tenant.session();
    expect(await store.sessions.tenantOf(sessionId)).toBe(tenantId);
    expect(await store.sessions.tenantOf(randomUUID())).toBeUndefined();
    expect(await store.sessions.tenantOf('x')).toBeUndefined();
    expect(await store.sessions.activeTools(tenantId, sessionId)).toBeUndefined();
    await store.sessions.setActiveTools({ tenantId, sessionId, names: ['a', 'b'], actor: 'plugin notes' });
    await store.sessions.setActiveTools({ tenantId, sessionId, names: [], actor: 'plugin notes' });
    expect(await store.sessions.activeTools(tenantId, sessionId)).toEqual([]);
    const foreign = { tenantId: other.tenantId, sessionId, names: ['c'], actor: 'x' };
    await expect(store.sessions.setActiveTools(foreign)).rejects.toMatchObject({ code: 'not_found' });
    await expect(store.sessions.activeTools(other.tenantId, sessionId)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('counts tokens on the run while it lives, and on the session otherwise', async () => {
    const { tenantId } = tenant;
    const sessionId = await tenant.session();
    const usage = { inputTokens: 3, outputTokens: 5 };
    await store.runs.addUsage({ tenantId, sessionId, usage });
    expect(await store.sessions.get(tenantId, sessionId)).toMatchObject({ usage });
    const { run } = await tenant.accept(sessionId);
    await store.runs.addUsage({ tenantId, sessionId, runId: run.id, usage });
    expect((await store.runs.get(tenantId, run.id)).usage).toEqual(usage);
    await store.runs.addUsage({ tenantId: other.tenantId, sessionId, runId: run.id, usage });
    expect((await store.runs.get(tenantId, run.id)).usage).toEqual(usage);
    expect(await store.sessions.get(tenantId, sessionId)).toMatchObject({ usage });
  });

  it('tells what its newest run works with', async () => {
    const { tenantId } = tenant;
    const sessionId = await tenant.session();
    expect(await store.runs.work({ tenantId, sessionId })).toBeUndefined();
    const { run } = await tenant.accept(sessionId);
    const work = await store.runs.work({ tenantId, sessionId });
    expect(work).toMatchObject({ runId: run.id, config: { name: expect.any(String) }, principal: {} });
    expect(await store.runs.work({ tenantId, sessionId, runId: run.id })).toEqual(work);
    expect(await store.runs.work({ tenantId, sessionId, runId: randomUUID() })).toBeUndefined();
    expect(await store.runs.work({ tenantId: other.tenantId, sessionId })).toBeUndefined();
  });
});
