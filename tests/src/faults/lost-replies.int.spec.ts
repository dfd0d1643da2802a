import { createTestDatabase, type TestDatabase } from '@codedock/testkit';
import pg from 'pg';
import { lostReplies } from './lost-replies.js';
import { startTcpProxy, type TcpProxy, throughProxy } from './tcp-proxy.js';

let database: TestDatabase;
let proxy: TcpProxy;
const lost: string[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const losing = /-- lose/;
  proxy = await startTcpProxy({
    to: Number(new URL(database.url).port),
    filter: lostReplies(
      (statement) => losing.test(statement),
      (statement) => void lost.push(statement),
    ),
  });
});

afterAll(async () => {
  await proxy.close();
  await database.drop();
});

async function query(url: string, sql: string, values: readonly unknown[] = []) {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(sql, [...values])).rows as Record<string, unknown>[];
  } finally {
    await client.end().catch(() => undefined);
  }
}

test.each([
  ['a simple statement', "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'simple') -- lose", []],
  ['one with parameters', 'INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), $1) -- lose', ['prepared']],
])('%s is committed and its reply never comes', async (_, sql, values) => {
  const before = lost.length;
  await expect(query(throughProxy(database.url, proxy), sql, values)).rejects.toThrow(/terminated|ECONNRESET/);
  expect(lost.slice(before)).toEqual([sql]);
  const name = values[0] ?? 'simple';
  expect(await query(database.url, 'SELECT count(*)::int AS n FROM tenants WHERE name = $1', [name])).toEqual([
    { n: 1 },
  ]);
});

test('a statement that fails is answered, and others pass untouched', async () => {
  const before = lost.length;
  const through = throughProxy(database.url, proxy);
  await expect(query(through, 'SELECT 1 / 0 -- lose')).rejects.toThrow('division by zero');
  expect(await query(through, 'SELECT $1::int AS n', [7])).toEqual([{ n: 7 }]);
  expect(lost.length).toBe(before);
});
