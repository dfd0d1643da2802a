import { createTestStore, type TestTenant, testRecord, testTenant } from '@codedock/testkit';
import type { Store } from './contract.js';
import { openStore } from './open-store.js';

describe('text that PostgreSQL cannot hold', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let sessionId: string;

  beforeAll(async () => {
    ({ store, close } = await createTestStore());
    tenant = await testTenant(store);
    sessionId = await tenant.session();
  });
  afterAll(() => close());

  it.each([
    ['NUL', 'a\u0000b'],
    ['a high surrogate', 'a\ud800b'],
    ['a low surrogate', '\udc00'],
  ])('is refused as invalid, with nothing written: %s', async (_name, text) => {
    const invalid = { code: 'invalid_request' };
    await expect(store.ledger.append(tenant.delta(sessionId, undefined, text))).rejects.toMatchObject(invalid);
    await expect(tenant.accept(sessionId, { metadata: { [text]: 1 } })).rejects.toMatchObject(invalid);
    await expect(
      store.audit.insert([{ record: testRecord({ reason: text }), site: { tenantId: tenant.tenantId, sessionId } }]),
    ).rejects.toMatchObject(invalid);
    expect((await store.sessions.get(tenant.tenantId, sessionId)).lastSeq).toBe(0);
  });

  it('is refused by Prisma’s tables too', async () => {
    const owner = { tenantId: tenant.tenantId, scope: 'tenant', owner: '' } as const;
    await expect(store.memory.upsert(owner, 'a\u0000', 'text')).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('is told apart from a database that cannot be reached', async () => {
    const nowhere = await openStore({ url: 'postgresql://nobody@127.0.0.1:1/none' });
    try {
      await expect(nowhere.ready()).rejects.toMatchObject({ code: 'store_unavailable' });
      await expect(nowhere.tenants.list()).rejects.toMatchObject({ code: 'store_unavailable' });
      await expect(nowhere.lead('x')).rejects.toMatchObject({ code: 'store_unavailable' });
    } finally {
      await nowhere.close();
    }
  });
});
