import { Redis } from 'ioredis';
import { Client } from 'pg';
import { expectNoLeftovers } from '../processes/leftovers.js';
import { startPostgres } from './own-postgres.js';
import { createTestDatabase } from './postgres.js';
import { startPostgresPair } from './postgres-pair.js';
import { describeWithRedis, requireRedis, startRedis } from './redis.js';
import { testServices } from './test-services.js';

afterAll(() => expectNoLeftovers());

async function query(connectionString: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test('every database is its own, and gone after drop even with a client connected', async () => {
  const [one, two] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  await query(one.url, 'CREATE TABLE only_here (id int)');
  await expect(query(two.url, 'SELECT * FROM only_here')).rejects.toThrow('does not exist');
  const left = new Client({ connectionString: one.url });
  left.on('error', () => undefined);
  await left.connect();
  await Promise.all([one.drop(), two.drop()]);
  await left.end().catch(() => undefined);
  const names = await query(testServices().adminUrl, 'SELECT datname FROM pg_database');
  expect(names.map(({ datname }) => datname)).not.toContain(one.name);
});

test('a database is migrated, and its owner is no superuser', async () => {
  const database = await createTestDatabase();
  try {
    const migrations = await query(database.url, 'SELECT finished_at FROM _prisma_migrations');
    expect(migrations.length).toBeGreaterThan(0);
    expect(migrations.every(({ finished_at }) => finished_at !== null)).toBe(true);
    expect(await query(database.url, 'SELECT usesuper FROM pg_user WHERE usename = current_user')).toEqual(
      process.env['TEST_DATABASE_URL'] ? expect.anything() : [{ usesuper: false }],
    );
  } finally {
    await database.drop();
  }
});

test.each(['fast', 'immediate', 'kill'] as const)(
  'a PostgreSQL of its own is migrated, and has what was committed after it was ended (%s) and started again',
  async (how) => {
    const postgres = await startPostgres();
    try {
      await query(postgres.database.url, "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'kept')");
      await postgres.end(how);
      await expect(query(postgres.database.url, 'SELECT 1')).rejects.toThrow();
      await postgres.restart();
      expect(await query(postgres.database.url, "SELECT name FROM tenants WHERE name = 'kept'")).toEqual([
        { name: 'kept' },
      ]);
    } finally {
      await postgres.stop();
    }
  },
  60_000,
);

test('a standby has every acknowledged commit when its primary is killed, and so has the next one', async () => {
  const pair = await startPostgresPair();
  const at = () => {
    const url = new URL(pair.database.url);
    url.port = String(pair.port());
    return url.href;
  };
  try {
    await query(at(), 'CREATE TABLE survivors (id int)');
    for (const id of [1, 2]) {
      await query(at(), `INSERT INTO survivors VALUES (${id})`);
      const former = at();
      await pair.killPrimary();
      await pair.promote();
      await expect(query(former, 'SELECT 1')).rejects.toThrow('ECONNREFUSED');
      await pair.restore();
    }
    expect(await query(at(), 'SELECT id FROM survivors ORDER BY id')).toEqual([{ id: 1 }, { id: 2 }]);
  } finally {
    await pair.stop();
  }
});

describeWithRedis('with Redis', () => {
  test('the database of this worker starts empty and evicts nothing', async () => {
    const database = await requireRedis();
    const client = new Redis(database.url);
    try {
      await client.set('key', 'value');
      expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction']);
      await database.flush();
      expect(await client.get('key')).toBeNull();
    } finally {
      await client.quit();
    }
  });

  test('a Redis that keeps an append-only file has everything again after kill -9, unless it is to be empty', async () => {
    const redis = await startRedis({ appendOnly: true });
    try {
      await redis.run('SET', 'key', 'value');
      await redis.kill();
      await redis.restart();
      expect(await redis.run('GET', 'key')).toBe('value');
      await redis.restart({ empty: true });
      expect(await redis.run('GET', 'key')).toBeNull();
    } finally {
      await redis.stop();
    }
  });

  test('a Redis of its own can be killed and comes back empty on its port', async () => {
    const redis = await startRedis();
    const client = new Redis(redis.url, { retryStrategy: () => 20 });
    client.on('error', () => undefined);
    try {
      await client.set('key', 'value');
      const { pid } = redis;
      await redis.kill();
      await redis.restart();
      expect(redis.pid).not.toBe(pid);
      expect(await client.get('key')).toBeNull();
    } finally {
      client.disconnect();
      await redis.stop();
    }
  });
});
