import { randomUUID } from 'node:crypto';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('idempotency keys', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;

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
  const claim = (key: string, ownerToken: string, bodyDigest = 'body', ttlMs = 10_000) =>
    store.idempotency.claim({ tenantId: tenant.tenantId, route: 'POST /runs', key, bodyDigest, ownerToken, ttlMs });
  const completion = (key: string, ownerToken: string) => ({
    route: 'POST /runs',
    key,
    ownerToken,
    status: 201,
    body: { handled: false },
  });

  it('are claimed by one of many', async () => {
    const key = randomUUID();
    const claims = await Promise.all(Array.from({ length: 24 }, (_, n) => claim(key, `owner-${n}`)));
    expect(claims.filter((made) => made.kind === 'claimed')).toHaveLength(1);
    const late = claims.find((made) => made.kind === 'in_progress');
    expect(late).toMatchObject({ kind: 'in_progress' });
  });

  it('replay what was created in the same transaction, and tell another body apart', async () => {
    const key = randomUUID();
    await claim(key, 'me');
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId, { idempotency: completion(key, 'me') });
    expect(await claim(key, 'other')).toEqual({
      kind: 'replay',
      response: { status: 201, body: { handled: false, run } },
    });
    expect(await claim(key, 'other', 'another body')).toEqual({ kind: 'mismatch' });
  });

  it('whose claim was lost create nothing', async () => {
    const key = randomUUID();
    await claim(key, 'slow', 'body', 0);
    expect(await claim(key, 'fast')).toEqual({ kind: 'claimed' });
    const sessionId = await tenant.session();
    await expect(tenant.accept(sessionId, { idempotency: completion(key, 'slow') })).rejects.toMatchObject({
      code: 'idempotency_in_progress',
    });
    expect(await store.runs.list({ tenantId: tenant.tenantId, sessionId, limit: 5 })).toEqual([]);
    expect((await store.sessions.get(tenant.tenantId, sessionId)).lastSeq).toBe(0);
    await expect(tenant.accept(sessionId, { idempotency: completion(key, 'fast') })).resolves.toBeDefined();
  });

  it('are free again after a release, which only the owner can do', async () => {
    const key = randomUUID();
    await claim(key, 'me');
    const where = { tenantId: tenant.tenantId, route: 'POST /runs', key };
    await store.idempotency.release({ ...where, ownerToken: 'other' });
    expect((await claim(key, 'other')).kind).toBe('in_progress');
    await store.idempotency.release({ ...where, ownerToken: 'me' });
    expect((await claim(key, 'other')).kind).toBe('claimed');
  });

  it('keep the response of a handled input, and of a created session', async () => {
    const key = randomUUID();
    await claim(key, 'me');
    const response = { status: 200, body: { handled: true, runId: null, run: null } };
    const where = { tenantId: tenant.tenantId, route: 'POST /runs', key };
    await store.idempotency.complete({ ...where, ownerToken: 'me', response });
    expect(await claim(key, 'x')).toEqual({ kind: 'replay', response });
    await expect(store.idempotency.complete({ ...where, ownerToken: 'me', response })).rejects.toMatchObject({
      code: 'idempotency_in_progress',
    });

    const second = randomUUID();
    await claim(second, 'me');
    const session = await store.sessions.create(
      { tenantId: tenant.tenantId, id: randomUUID(), metadata: {}, createdBy: 'k' },
      { ...completion(second, 'me'), body: {} },
    );
    expect(await claim(second, 'x')).toEqual({ kind: 'replay', response: { status: 201, body: session } });
    const lost = randomUUID();
    await expect(
      store.sessions.create(
        { tenantId: tenant.tenantId, id: lost, metadata: {}, createdBy: 'k' },
        { ...completion(randomUUID(), 'nobody'), body: {} },
      ),
    ).rejects.toMatchObject({ code: 'idempotency_in_progress' });
    await expect(store.sessions.get(tenant.tenantId, lost)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('are claimed anew once a stored response is a day old', async () => {
    const key = randomUUID();
    await claim(key, 'me');
    await store.idempotency.complete({
      tenantId: tenant.tenantId,
      route: 'POST /runs',
      key,
      ownerToken: 'me',
      response: { status: 200, body: {} },
    });
    const { rows } = await observer.query<{ hours: number }>(
      'SELECT round(extract(epoch FROM expires_at - now()) / 3600)::int AS hours FROM idempotency_keys WHERE key = $1',
      [key],
    );
    expect(rows[0]?.hours).toBe(24);
    await observer.query("UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE key = $1", [key]);
    expect((await claim(key, 'other', 'another body')).kind).toBe('claimed');
  });

  it('of two tenants are two keys', async () => {
    const key = randomUUID();
    await claim(key, 'me');
    const other = await testTenant(store);
    const made = await store.idempotency.claim({
      tenantId: other.tenantId,
      route: 'POST /runs',
      key,
      bodyDigest: 'body',
      ownerToken: 'o',
      ttlMs: 1_000,
    });
    expect(made.kind).toBe('claimed');
  });
});
