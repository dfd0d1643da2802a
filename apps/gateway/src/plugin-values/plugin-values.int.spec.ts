import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createTestDatabase, expectNoLeftovers, type TestDatabase } from '@codedock/testkit';
import { Client } from 'pg';
import { secretCipher } from '../secrets/secret-cipher.js';
import { everyRow } from '../testing/every-row.js';
import { startTestGateway, type TestGateway, type TestTenant } from '../testing/start-gateway.js';
import { PluginValues } from './plugin-values.js';

const SECRETS_KEY = randomBytes(32).toString('base64');
const CANARY = `canary-${randomBytes(16).toString('hex')}`;

let database: TestDatabase;
let gateway: TestGateway;
let tenant: TestTenant;
let other: TestTenant;

beforeAll(async () => {
  database = await createTestDatabase();
  gateway = await startTestGateway(database.url, { CODEDOCK_SECRETS_KEY: SECRETS_KEY });
  tenant = await gateway.tenant('values');
  other = await gateway.tenant('others');
});

afterAll(async () => {
  expect(await gateway.stop()).toBe(true);
  await database.drop();
  await expectNoLeftovers();
});

const base = '/v1/plugins/notes';
const send = (method: string, path: string, body?: unknown, key = tenant.key) =>
  gateway.send(method, `${base}/${path}`, { key, ...(body === undefined ? {} : { body }) });

describe('settings of plugins over HTTP', () => {
  it('are set, listed and removed, for the tenant or for all', async () => {
    expect(await send('PUT', 'settings/level', { value: { a: 1 }, scope: 'global' })).toMatchObject({
      status: 200,
      body: { plugin: 'notes', key: 'level', scope: 'global' },
    });
    expect(await send('PUT', 'settings/level', { value: null })).toMatchObject({ status: 200 });
    const { body } = await send('GET', 'settings');
    expect(body.items).toMatchObject([
      { key: 'level', scope: 'tenant', value: null },
      { key: 'level', scope: 'global', value: { a: 1 } },
    ]);
    expect((await send('GET', 'settings', undefined, other.key)).body.items).toMatchObject([{ scope: 'global' }]);
    expect((await send('DELETE', 'settings/level')).status).toBe(204);
    expect(await send('DELETE', 'settings/level')).toMatchObject({ status: 404 });
    expect((await send('DELETE', 'settings/level?scope=global')).status).toBe(204);
    expect((await send('GET', 'settings')).body.items).toEqual([]);
  });

  it.each<[string, string, unknown]>([
    ['no value', 'settings/a', {}],
    ['an unknown field', 'settings/a', { value: 1, more: 2 }],
    ['a scope that is none', 'settings/a', { value: 1, scope: 'galaxy' }],
    ['a key that is none', 'settings/a%20b', { value: 1 }],
    ['a secret that is no text', 'secrets/a', { value: 1 }],
    ['an empty secret', 'secrets/a', { value: '' }],
  ])('are refused with %s', async (_, path, body) => {
    expect(await send('PUT', path, body)).toMatchObject({ status: 422, body: { code: 'invalid_request' } });
  });

  it('are for the scope admin', async () => {
    const { key } = await tenant.newKey(['runs', 'approvals']);
    expect(await send('PUT', 'settings/a', { value: 1 }, key)).toMatchObject({ status: 403 });
    expect(await send('GET', 'secrets', undefined, key)).toMatchObject({ status: 403 });
  });
});

describe('secrets of plugins over HTTP', () => {
  it('are never shown again, and stand encrypted in the database', async () => {
    const put = await send('PUT', 'secrets/token', { value: CANARY });
    expect(put.status).toBe(200);
    const { body } = await send('GET', 'secrets');
    expect(body.items).toMatchObject([{ key: 'token', scope: 'tenant', updatedBy: expect.stringMatching(/^key-/) }]);
    expect(JSON.stringify([put.body, body])).not.toContain(CANARY);

    const values = new PluginValues(gateway.store.pluginValues, secretCipher(SECRETS_KEY));
    const place = { tenantId: tenant.id, plugin: 'notes', key: 'token' };
    expect(await values.secret(place)).toBe(CANARY);

    const rows = await everyRow(database.url);
    expect(rows).toContain('plugin.secret_set');
    for (const spelling of [CANARY, Buffer.from(CANARY).toString('hex'), Buffer.from(CANARY).toString('base64')])
      expect(rows).not.toContain(spelling);
    const dump = spawnSync('pg_dump', ['--dbname', database.url], { maxBuffer: 64 * 1024 * 1024 });
    // An older pg_dump refuses a newer server; the rows themselves were looked at above.
    if (dump.status === 0) expect(dump.stdout.toString('latin1')).not.toContain(CANARY);
    else
      process.stderr.write(`skipped: the secret in a dump: ${dump.error?.message ?? dump.stderr.toString().trim()}\n`);
  });

  it('stored under another key are a clear error', async () => {
    const wrong = new PluginValues(gateway.store.pluginValues, secretCipher(randomBytes(32).toString('hex')));
    const none = new PluginValues(gateway.store.pluginValues, undefined);
    const place = { tenantId: tenant.id, plugin: 'notes', key: 'token' };
    await expect(wrong.secret(place)).rejects.toThrow(/stored under another key .* than CODEDOCK_SECRETS_KEY is now/);
    await expect(none.secret(place)).rejects.toThrow(/CODEDOCK_SECRETS_KEY is not set/);
    await expect(none.setSecret({ ...place, actor: 'a', scope: 'tenant' }, 'x')).rejects.toMatchObject({
      code: 'config_invalid',
    });
  });

  it('moved to another place in the database cannot be opened', async () => {
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query("UPDATE plugin_secrets SET plugin = 'thief' WHERE plugin = 'notes' AND key = 'token'");
    await client.end();
    const values = new PluginValues(gateway.store.pluginValues, secretCipher(SECRETS_KEY));
    await expect(values.secret({ tenantId: tenant.id, plugin: 'thief', key: 'token' })).rejects.toThrow(
      /was changed in the database/,
    );
  });
});
