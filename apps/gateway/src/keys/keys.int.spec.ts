import { randomUUID } from 'node:crypto';
import { createTestDatabase, eventually, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { Client } from 'pg';
import { everyRow } from '../testing/every-row.js';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

const SECRETS_KEY = 'ab'.repeat(32);

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url, {
    CODEDOCK_SECRETS_KEY: SECRETS_KEY,
    CODEDOCK_OPERATOR_TENANTS: 'operations, somebody',
  });
  tenant = await gateway.tenant('keys');
  other = await gateway.tenant('operations');
});
afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const send = (method: string, path: string, body?: unknown, key = tenant.key) =>
  gateway.send(method, path, { key, ...(body === undefined ? {} : { body }) });
const works = async (key: string) => (await gateway.send('GET', '/v1/sessions', { key })).status === 200;
const acts = async (action: string) => (await send('GET', `/v1/audit?action=${action}`)).body.items;

describe('API keys over HTTP', () => {
  it('are created with scopes, shown once, listed without secrets, and revoked', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const made = await send('POST', '/v1/keys', { name: 'app', scopes: ['runs'], expiresAt });
    expect(made).toMatchObject({ status: 201, body: { name: 'app', scopes: ['runs'], expiresAt } });
    const { id, key } = made.body;
    expect(key).toMatch(/^cdk_[A-Za-z0-9_-]{43}$/);
    expect(await works(key)).toBe(true);
    expect((await send('GET', '/v1/plugins/x/settings', undefined, key)).status).toBe(403);
    expect(await send('POST', '/v1/keys', { name: 'app' })).toMatchObject({ status: 409, body: { code: 'conflict' } });
    const list = await send('GET', '/v1/keys');
    expect(list.body.items.find((one: { id: string }) => one.id === id)).toEqual({
      id,
      name: 'app',
      scopes: ['runs'],
      createdAt: expect.any(String),
      expiresAt,
    });
    expect(JSON.stringify(list.body)).not.toContain(key);
    expect((await send('GET', '/v1/keys', undefined, other.key)).body.items).toHaveLength(1);

    expect(await send('POST', `/v1/keys/${id}/revoke`)).toMatchObject({ status: 200, body: { id } });
    expect((await send('POST', `/v1/keys/${id}/revoke`)).body.revokedAt).toEqual(expect.any(String));
    await eventually(async () => !(await works(key)), { timeoutMs: 20_000, what: 'the revoked key to be refused' });
    expect((await acts('key.created'))[0]).toMatchObject({ target: 'app', detail: { keyId: id, scopes: ['runs'] } });
    expect(await acts('key.revoked')).toHaveLength(1);
  }, 30_000);

  it('are rotated: the new secret at once, the former for the time of grace, both the same key', async () => {
    const { body: made } = await send('POST', '/v1/keys', { name: 'rotating', scopes: ['runs', 'admin'] });
    const rotated = await send('POST', `/v1/keys/${made.id}/rotate`, { graceSeconds: 3_600 });
    expect(rotated).toMatchObject({
      status: 200,
      body: { id: made.id, name: 'rotating', rotatedAt: expect.any(String), formerUntil: expect.any(String) },
    });
    expect(rotated.body.key).not.toBe(made.key);
    expect([await works(made.key), await works(rotated.body.key)]).toEqual([true, true]);
    // A session made with one is the same key's as one made with the other.
    const [a, b] = await Promise.all(
      [made.key, rotated.body.key].map((key) => gateway.send('POST', '/v1/sessions', { key, body: {} })),
    );
    expect([a?.status, b?.status]).toEqual([201, 201]);

    // The next one takes the secret before the former one away at once, and without grace the former one too.
    const again = await send('POST', `/v1/keys/${made.id}/rotate`, { graceSeconds: 0 });
    expect(again.body).not.toHaveProperty('formerUntil');
    await eventually(async () => !(await works(made.key)) && !(await works(rotated.body.key)), {
      timeoutMs: 20_000,
      what: 'both former secrets to be refused',
    });
    expect(await works(again.body.key)).toBe(true);
    expect(await acts('key.rotated')).toHaveLength(2);
    await send('POST', `/v1/keys/${made.id}/revoke`);
    expect(await send('POST', `/v1/keys/${made.id}/rotate`)).toMatchObject({ status: 409, body: { code: 'conflict' } });
  }, 40_000);

  it('of a past grace are refused', async () => {
    const { body: made } = await send('POST', '/v1/keys', { name: 'late' });
    const { body: rotated } = await send('POST', `/v1/keys/${made.id}/rotate`);
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query("UPDATE api_keys SET former_until = now() - interval '1 second' WHERE id = $1", [made.id]);
    await client.end();
    // Never asked with before, so that no answer about it is remembered.
    expect([await works(made.key), await works(rotated.key)]).toEqual([false, true]);
  });

  it('of a key that has expired do not come back to life by a later date', async () => {
    const { body: made } = await send('POST', '/v1/keys', { name: 'expired' });
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query("UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1", [made.id]);
    await client.end();
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const { body: rotated } = await send('POST', `/v1/keys/${made.id}/rotate`, { expiresAt: later });
    expect(rotated).not.toHaveProperty('formerUntil');
    expect([await works(made.key), await works(rotated.key)]).toEqual([false, true]);
  });

  it('of another tenant are 404, and change nothing', async () => {
    for (const verb of ['rotate', 'revoke']) {
      for (const id of [tenant.keyId, randomUUID(), 'x']) {
        const answer = await send('POST', `/v1/keys/${id}/${verb}`, undefined, other.key);
        expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
      }
    }
    expect(await works(tenant.key)).toBe(true);
  });

  it('created twice under an idempotency key are one, whose secret is in no table', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const body = { name: `once-${randomUUID()}` };
    const first = await gateway.send('POST', '/v1/keys', { key: tenant.key, body, headers });
    const second = await gateway.send('POST', '/v1/keys', { key: tenant.key, body, headers });
    expect(first.status).toBe(201);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(await everyRow(database.url)).not.toContain(first.body.key);
  });

  it('rotated twice under an idempotency key are rotated once: the secret in use keeps its time of grace', async () => {
    const { body: made } = await send('POST', '/v1/keys', { name: `lost-${randomUUID()}` });
    const headers = { 'idempotency-key': randomUUID() };
    const rotate = (id: string, body: object) =>
      gateway.send('POST', `/v1/keys/${id}/rotate`, { key: tenant.key, body, headers });
    const first = await rotate(made.id, { graceSeconds: 3_600 });
    const second = await rotate(made.id, { graceSeconds: 3_600 });
    expect(first).toMatchObject({ status: 200, body: { id: made.id, formerUntil: expect.any(String) } });
    expect([second.status, second.body]).toEqual([200, first.body]);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    // Neither was asked with before, so that no answer about it is remembered.
    expect([await works(made.key), await works(first.body.key)]).toEqual([true, true]);
    expect(await everyRow(database.url)).not.toContain(first.body.key);
    const other = { status: 422, body: { code: 'idempotency_mismatch' } };
    expect(await rotate(made.id, { graceSeconds: 0 })).toMatchObject(other);
    expect(await rotate(tenant.keyId, { graceSeconds: 3_600 })).toMatchObject(other);
  });

  it.each([
    [{}, '/name'],
    [{ name: '' }, '/name'],
    [{ name: ' x' }, '/name'],
    [{ name: 'x'.repeat(101) }, '/name'],
    [{ name: 'x', scopes: [] }, '/scopes'],
    [{ name: 'x', scopes: ['root'] }, '/scopes/0'],
    [{ name: 'x', scopes: ['runs', 'runs'] }, '/scopes'],
    [{ name: 'x', expiresAt: 'soon' }, '/expiresAt'],
    [{ name: 'x', expiresAt: '2001-01-01T00:00:00Z' }, '/expiresAt'],
    [{ name: 'x', expiresAt: '2101-01-01T00:00:00Z' }, '/expiresAt'],
    [{ name: 'x', hash: 'y' }, '/hash'],
  ])('%j is 422', async (body, at) => {
    const answer = await send('POST', '/v1/keys', body);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
    expect(answer.body.errors.map(({ path }: { path: string }) => path)).toContain(at);
  });
});

describe('acts of administrators', () => {
  it('are read newest first, a page at a time, by action and target, and only the own ones', async () => {
    for (const name of ['a', 'b', 'c']) await send('POST', '/v1/keys', { name: `audit-${name}` });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: { items: { id: string; target: string }[]; nextCursor: string | null } = (
        await send('GET', `/v1/audit?action=key.created&limit=2${cursor === null ? '' : `&cursor=${cursor}`}`)
      ).body;
      seen.push(...page.items.map(({ target }) => target));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(seen.slice(0, 3)).toEqual(['audit-c', 'audit-b', 'audit-a']);
    expect(new Set(seen).size).toBe(seen.length);
    const one = (await send('GET', '/v1/audit?target=audit-b')).body.items;
    expect(one).toMatchObject([{ actor: expect.any(String), action: 'key.created', target: 'audit-b' }]);
    const foreign = (await send('GET', '/v1/audit', undefined, other.key)).body.items;
    expect(foreign.map(({ detail }: { detail: { keyId: string } }) => detail.keyId)).toEqual([other.keyId]);
  });

  it.each(['cursor=x', 'limit=0', 'of=all', 'action=', 'since=1'])('?%s is 422', async (query) => {
    expect((await send('GET', `/v1/audit?${query}`)).status).toBe(422);
  });
});

describe('what all tenants share', () => {
  it('is changed by admin keys of the operating tenants alone', async () => {
    const requests: [string, string, unknown?][] = [
      ['POST', '/v1/plugins/x/disable', {}],
      ['POST', '/v1/plugins/x/enable', {}],
      ['POST', '/v1/plugins/x/stop', {}],
      ['POST', '/v1/plugins/x/start', {}],
      ['POST', '/v1/plugins/x/reload', {}],
      ['PUT', '/v1/plugins/x/settings/level', { value: 1, scope: 'global' }],
      ['DELETE', '/v1/plugins/x/settings/level?scope=global'],
      ['PUT', '/v1/plugins/x/secrets/level', { value: '1', scope: 'global' }],
      ['DELETE', '/v1/plugins/x/secrets/level?scope=global'],
      ['GET', '/v1/secrets'],
      ['POST', '/v1/secrets/reencrypt', {}],
      ['GET', '/v1/audit?of=installation'],
    ];
    for (const [method, path, body] of requests) {
      const refused = await send(method, path, body);
      expect({ path, ...refused.body }).toMatchObject({ path, status: 403, code: 'forbidden' });
      expect(refused.body.detail).toContain('CODEDOCK_OPERATOR_TENANTS');
      expect({ path, status: (await send(method, path, body, other.key)).status }).not.toEqual({ path, status: 403 });
    }
    // The tenant's own values are its own affair.
    expect((await send('PUT', '/v1/plugins/x/settings/level', { value: 1, scope: 'tenant' })).status).not.toBe(403);
  });
});
