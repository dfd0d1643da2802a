import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTestStore } from '@codedock/testkit';
import { Client } from 'pg';
import { migrate } from './migrate.js';
import { migrateConfig } from './migrate-command/config.js';
import { MIGRATIONS } from './migration-names.js';
import { openStore } from './open-store.js';

const ROOT = path.join(__dirname, '..', '..', '..');
const FOLDER = path.join(ROOT, 'prisma', 'migrations');

/** The stock CLI on the engine of this repository. */
function prisma(url: string, ...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [require.resolve('prisma/build/index.js'), ...args], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      ...process.env,
      DATABASE_URL: url,
      PRISMA_SCHEMA_ENGINE_BINARY: path.join(ROOT, 'tools', 'prisma', 'schema-engine.mjs'),
      PRISMA_HIDE_UPDATE_MESSAGE: '1',
      CHECKPOINT_DISABLE: '1',
    },
  });
  return { status, output: `${stdout}${stderr}` };
}

describe('migrating', () => {
  let url: string;
  let close: () => Promise<void>;
  let client: Client;
  let copy: string;

  beforeAll(async () => {
    ({ url, close } = await createTestStore());
    client = new Client({ connectionString: url });
    await client.connect();
    copy = await mkdtemp(path.join(tmpdir(), 'codedock-migrations-'));
    await cp(FOLDER, copy, { recursive: true });
  });
  afterAll(async () => {
    await client.end();
    await close();
    await rm(copy, { recursive: true });
  });

  it('is known by name to the build', async () => {
    const folders = (await readdir(FOLDER, { withFileTypes: true })).filter((entry) => entry.isDirectory());
    expect(folders.map((entry) => entry.name).sort()).toEqual(MIGRATIONS);
  });

  it('leaves what Prisma calls up to date, without drift, and Prisma finds drift where there is some', async () => {
    const status = prisma(url, 'migrate', 'status');
    expect(status.output).toContain('Database schema is up to date');
    expect(status.status).toBe(0);
    const diff = ['migrate', 'diff', '--from-config-datasource', '--to-schema', 'prisma/schema.prisma', '--exit-code'];
    expect(prisma(url, ...diff)).toMatchObject({ status: 0 });
    await client.query('ALTER TABLE memory ADD COLUMN drift text');
    expect(prisma(url, ...diff)).toMatchObject({ status: 2 });
    await client.query('ALTER TABLE memory DROP COLUMN drift');
  }, 120_000);

  it('applies nothing twice, also when many start at once', async () => {
    const results = await Promise.all(Array.from({ length: 4 }, () => migrate({ url })));
    expect(results.map(({ applied }) => applied)).toEqual([[], [], [], []]);
  });

  it('sets cursors right that a dump of another server brought along', async () => {
    await client.query(
      `INSERT INTO plugin_cursors (tenant_id, plugin, events, txid)
       VALUES ('00000000-0000-0000-0000-000000000000', 'p', '{}', '900000000')`,
    );
    await client.query("UPDATE event_cursors SET txid = '900000000'");
    await migrate({ url });
    const { rows } = await client.query<{ right: boolean }>(
      `SELECT bool_and(txid <= pg_snapshot_xmax(pg_current_snapshot())) AS right
       FROM (SELECT txid FROM plugin_cursors UNION ALL SELECT txid FROM event_cursors) c`,
    );
    expect(rows).toEqual([{ right: true }]);
  });

  it('applies a new one once, and refuses an edited and a failed one', async () => {
    const add = async (name: string, sql: string) => {
      await mkdir(path.join(copy, name), { recursive: true });
      await writeFile(path.join(copy, name, 'migration.sql'), sql);
    };
    await add('29990101000000_more', 'CREATE TABLE more (id integer);');
    const results = await Promise.all(Array.from({ length: 4 }, () => migrate({ url, dir: copy })));
    expect(results.flatMap(({ applied }) => applied)).toEqual(['29990101000000_more']);
    await add('29990101000000_more', 'CREATE TABLE more (id bigint);');
    await expect(migrate({ url, dir: copy })).rejects.toMatchObject({ code: 'config_invalid' });
    await add('29990101000000_more', 'CREATE TABLE more (id integer);');
    await add('29990102000000_wrong', 'CREATE TABLE half (id integer); SELECT wrong;');
    await expect(migrate({ url, dir: copy })).rejects.toMatchObject({ code: 'config_invalid' });
    expect((await client.query("SELECT to_regclass('half') AS half")).rows).toEqual([{ half: null }]);
    await expect(migrate({ url, dir: copy })).rejects.toThrow('29990102000000_wrong failed before');
  });

  it('is missed by a build that needs it', async () => {
    await client.query('ALTER TABLE _prisma_migrations RENAME TO hidden');
    const store = await openStore({ url });
    try {
      await expect(store.ready()).rejects.toMatchObject({ code: 'store_unavailable' });
    } finally {
      await store.close();
      await client.query('ALTER TABLE hidden RENAME TO _prisma_migrations');
    }
  });

  it('takes its address from the environment or says what is missing', () => {
    const direct = 'postgresql://direct/db';
    expect(migrateConfig({ DATABASE_URL: 'postgresql://pooler/db', DATABASE_DIRECT_URL: direct }).url).toBe(direct);
    expect(() => migrateConfig({ DATABASE_URL: 'mysql://x' })).toThrow('DATABASE_URL');
    expect(() => migrateConfig({})).toThrow('DATABASE_URL');
  });
});
