import { randomUUID } from 'node:crypto';
import { createTestDatabase, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url);
  tenant = await gateway.tenant('memory');
  other = await gateway.tenant('others');
});
afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const send = (method: string, path: string, body?: unknown, key = tenant.key) =>
  gateway.send(method, path, { key, ...(body === undefined ? {} : { body }) });

describe('memory', () => {
  it('of a session, a user and the tenant are three, set, read, listed and deleted', async () => {
    const sessionId = (await send('POST', '/v1/sessions', { user: 'ann' })).body.id as string;
    const owners = [
      { scope: 'session', owner: sessionId },
      { scope: 'user', owner: 'ann & bob/ü' },
      { scope: 'tenant' },
    ];
    for (const whose of owners) {
      const set = await send('PUT', '/v1/memory/colour', { ...whose, text: `blue of ${whose.scope}` });
      expect(set).toMatchObject({ status: 200, body: { name: 'colour', text: `blue of ${whose.scope}` } });
    }
    for (const whose of owners) {
      const query = new URLSearchParams(whose as Record<string, string>);
      const { body } = await send('GET', `/v1/memory/colour?${query}`);
      expect(body.text).toBe(`blue of ${whose.scope}`);
      expect((await send('GET', `/v1/memory?${query}`)).body).toEqual({
        items: [{ name: 'colour', characters: body.text.length, updatedAt: body.updatedAt }],
        nextCursor: null,
      });
      expect((await send('DELETE', `/v1/memory/colour?${query}`)).status).toBe(204);
      expect((await send('GET', `/v1/memory/colour?${query}`)).status).toBe(404);
      expect((await send('DELETE', `/v1/memory/colour?${query}`)).status).toBe(404);
    }
    const acts = (await send('GET', '/v1/audit?target=colour')).body.items as { action: string; detail: object }[];
    expect(acts.map(({ action }) => action)).toEqual([
      ...Array(3).fill('memory.deleted'),
      ...Array(3).fill('memory.set'),
    ]);
    expect(JSON.stringify(acts)).not.toContain('blue');
  });

  it('is what agents remember', async () => {
    const owner = { tenantId: tenant.id, scope: 'user' as const, owner: 'eve' };
    await gateway.store.memory.upsert(owner, 'food', '50% rice');
    expect((await send('GET', '/v1/memory/food?scope=user&owner=eve')).body.text).toBe('50% rice');
    await send('PUT', '/v1/memory/food', { scope: 'user', owner: 'eve', text: 'beans' });
    expect((await gateway.store.memory.get(owner, 'food'))?.text).toBe('beans');
  });

  it('is listed by name in pages, and searched in names and texts', async () => {
    const owner = { scope: 'user', owner: 'many' };
    for (const name of ['b', 'a', 'Z', 'ä', 'c%'])
      await send('PUT', `/v1/memory/${encodeURIComponent(name)}`, { ...owner, text: `the ${name}` });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: { items: { name: string }[]; nextCursor: string | null } = (
        await send(
          'GET',
          `/v1/memory?scope=user&owner=many&limit=2${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
        )
      ).body;
      seen.push(...page.items.map(({ name }) => name));
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual(['Z', 'a', 'b', 'c%', 'ä']);
    const found = async (query: string) =>
      (await send('GET', `/v1/memory?scope=user&owner=many&query=${encodeURIComponent(query)}`)).body.items.map(
        ({ name }: { name: string }) => name,
      );
    expect(await found('THE C')).toEqual(['c%']);
    expect(await found('%')).toEqual(['c%']);
    expect(await found('_')).toEqual([]);
  });

  it("is one tenant's, and a session's only where the session is", async () => {
    const sessionId = (await send('POST', '/v1/sessions', {})).body.id as string;
    const whose = `scope=session&owner=${sessionId}`;
    await send('PUT', '/v1/memory/secret', { scope: 'session', owner: sessionId, text: 'mine' });
    await send('PUT', '/v1/memory/secret', { scope: 'tenant', text: 'mine' });
    const requests: [string, string, unknown?][] = [
      ['GET', `/v1/memory?${whose}`],
      ['GET', `/v1/memory/secret?${whose}`],
      ['PUT', '/v1/memory/secret', { scope: 'session', owner: sessionId, text: 'theirs' }],
      ['DELETE', `/v1/memory/secret?${whose}`],
      ['GET', '/v1/memory/secret?scope=tenant'],
      ['DELETE', '/v1/memory/secret?scope=tenant'],
      ['GET', `/v1/memory?scope=session&owner=${randomUUID()}`],
      ['GET', '/v1/memory?scope=session&owner=x'],
    ];
    for (const [method, path, body] of requests) {
      const answer = await send(method, path, body, other.key);
      expect({ path, status: answer.status, code: answer.body?.code }).toEqual({
        path,
        status: 404,
        code: 'not_found',
      });
    }
    expect((await send('GET', '/v1/memory?scope=tenant', undefined, other.key)).body.items).toEqual([]);
    expect((await send('GET', `/v1/memory/secret?${whose}`)).body.text).toBe('mine');
  });

  it('has a limit of entries, which a change of one does not meet', async () => {
    const owner = { tenantId: tenant.id, scope: 'user' as const, owner: 'full' };
    const set = (name: string, text: string) =>
      gateway.store.memory.set(owner, { name, text, maxEntries: 2, actor: 'test' });
    await set('a', '1');
    await set('b', '1');
    await expect(set('c', '1')).rejects.toMatchObject({ code: 'conflict' });
    expect((await set('a', '2')).text).toBe('2');
  });

  it.each([
    ['GET', '/v1/memory', undefined, '/scope'],
    ['GET', '/v1/memory?scope=world', undefined, '/scope'],
    ['GET', '/v1/memory?scope=user', undefined, '/owner'],
    ['GET', '/v1/memory?scope=tenant&owner=x', undefined, '/owner'],
    ['GET', '/v1/memory?scope=tenant&limit=0', undefined, '/limit'],
    ['GET', '/v1/memory/x?scope=session', undefined, '/owner'],
    ['PUT', '/v1/memory/x', { scope: 'tenant' }, '/text'],
    ['PUT', '/v1/memory/x', { scope: 'tenant', text: 'x'.repeat(100_001) }, '/text'],
    ['PUT', '/v1/memory/x', { scope: 'tenant', text: 'x', name: 'y' }, '/name'],
    ['PUT', '/v1/memory/x', { scope: 'user', owner: '', text: 'x' }, '/owner'],
    ['DELETE', '/v1/memory/x', undefined, '/scope'],
  ])('%s %s (%#) is 422 at its path', async (method, path, body, at) => {
    const answer = await send(method, path, body);
    expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
    expect(answer.body.errors.map((error: { path: string }) => error.path)).toContain(at);
  });

  it('has names of at most 200 characters', async () => {
    const answer = await send('PUT', `/v1/memory/${'x'.repeat(201)}`, { scope: 'tenant', text: 'x' });
    expect([404, 422]).toContain(answer.status);
  });
});
