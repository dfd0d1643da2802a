import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { EmbeddedPostgresError } from './errors.js';
import { isPostgresOf, postgresProcessesOf, processIdentity } from './process-identity.js';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from './start-embedded-postgres.js';
import { untilTrue } from './until.js';

jest.setTimeout(60_000);

const asRoot = process.getuid?.() === 0;
let folder: string;
let dataDir: string;
const servers: EmbeddedPostgres[] = [];

beforeEach(async () => {
  folder = await realpath(await mkdtemp(path.join(os.tmpdir(), 'codedock-embedded-test-')));
  await chmod(folder, 0o755);
  dataDir = path.join(folder, 'postgres');
});

afterEach(async () => {
  for (const server of servers.splice(0)) {
    await server.stop();
  }
  await rm(folder, { recursive: true, force: true });
});

async function start(options: EmbeddedPostgresOptions = { dataDir }): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres(options);
  servers.push(server);
  return server;
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Runs a starter in a process of its own; settles when its server is ready. */
async function startInChild(): Promise<{ child: ChildProcess; pid: number; url: string }> {
  const root = path.resolve(__dirname, '../../..');
  const script = `
    const { startEmbeddedPostgres } = require(${JSON.stringify(path.join(__dirname, 'start-embedded-postgres.ts'))});
    startEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)} }).then(
      ({ pid, url }) => console.log(JSON.stringify({ pid, url })),
      (error) => { console.error(error); process.exit(1); },
    );`;
  const child = spawn(process.execPath, ['-r', path.join(root, 'scripts/register-typescript.cjs'), '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, ...(JSON.parse(line.toString()) as { pid: number; url: string }) };
}

async function killHard(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

describe('a data folder', () => {
  test('keeps data, passwords and port over a restart', async () => {
    const first = await start();
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await first.stop();
    expect(await processIdentity(first.pid)).toBeUndefined();

    const second = await start();
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    expect(second.url).toBe(first.url);
    expect(second.pid).not.toBe(first.pid);
  });

  test('refuses a wrong password and readers of its passwords', async () => {
    const server = await start();
    const wrong = new URL(server.url);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow('password authentication failed');
    expect((await stat(path.join(dataDir, 'credentials.json'))).mode & 0o777).toBe(0o600);
  });

  test('gives the application its own database without superuser rights', async () => {
    const server = await start();
    expect(
      await query(
        server.url,
        'SELECT rolsuper, current_database() AS database FROM pg_roles WHERE rolname = current_user',
      ),
    ).toEqual([{ rolsuper: false, database: 'codedock' }]);
    expect(await query(server.adminUrl, "SELECT current_setting('listen_addresses') AS at")).toEqual([
      { at: '127.0.0.1' },
    ]);
  });

  test('takes another port when the kept one is in use', async () => {
    const first = await start();
    await first.stop();
    const foreign = createServer().listen({ host: '127.0.0.1', port: first.port });
    await once(foreign, 'listening');
    try {
      const second = await start();
      expect(second.port).not.toBe(first.port);
    } finally {
      foreign.close();
    }
  });

  test('names the fixed port that is in use', async () => {
    const foreign = createServer().listen({ host: '127.0.0.1', port: 0 });
    await once(foreign, 'listening');
    const { port } = foreign.address() as { port: number };
    try {
      await expect(start({ dataDir, port })).rejects.toThrow(String(port));
    } finally {
      foreign.close();
    }
    // The failed start leaves no claim behind.
    await start();
  });

  test('is refused to a second starter while the first runs, and found by other tools', async () => {
    const first = await start();
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toThrow(`Process ${process.pid} already runs`);
    expect(await findEmbeddedPostgres(dataDir)).toEqual({
      url: first.url,
      adminUrl: first.adminUrl,
      port: first.port,
      pid: first.pid,
    });
    await first.stop();
    expect(await findEmbeddedPostgres(dataDir)).toBeUndefined();
  });

  test('says so when its passwords are lost', async () => {
    await (await start()).stop();
    await rm(path.join(dataDir, 'credentials.json'));
    await expect(start()).rejects.toThrow(EmbeddedPostgresError);
    await expect(start()).rejects.toThrow('credentials.json is missing');
  });
});

describe('kill -9', () => {
  test('of the starter ends the server, and the next start finds the data', async () => {
    const { child, pid, url } = await startInChild();
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS answer');
    await killHard(child);
    expect(await untilTrue(async () => (await processIdentity(pid)) === undefined, 20_000)).toBe(true);

    const server = await start();
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([{ answer: 1 }]);
  });

  test('of starter and guardian leaves a server that the next start ends first', async () => {
    const { child, pid, url } = await startInChild();
    const guardians = await childrenOf(child.pid ?? 0);
    const guards = (await Promise.all(guardians.map(childrenOf))).flat().filter((each) => each !== pid);
    await query(url, 'CREATE TABLE kept AS SELECT 2 AS answer');
    for (const guardian of [...guardians, ...guards]) {
      process.kill(guardian, 'SIGKILL');
    }
    await killHard(child);
    expect(await processIdentity(pid)).toBeDefined();

    const server = await start();
    expect(await processIdentity(pid)).toBeUndefined();
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([{ answer: 2 }]);
  });

  test('of the server is reported, and the next start recovers', async () => {
    const first = await start();
    await query(first.url, 'CREATE TABLE kept AS SELECT 3 AS answer');
    process.kill(first.pid, 'SIGKILL');
    expect(await first.exited).not.toBe(0);
    await first.stop();

    const second = await start();
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 3 }]);
  });

  test('with the pid given to a foreign process: that process is left alone', async () => {
    const first = await start();
    const { clusterDir } = first;
    const pidFile = path.join(clusterDir, 'postmaster.pid');
    const text = await readFile(pidFile, 'utf8');
    await first.stop();
    // Root's processes do not block PostgreSQL under another uid, so the foreign one runs as the server's user.
    const foreign = spawn('sleep', ['600'], asRoot ? { uid: 65534, gid: 65534 } : {});
    try {
      await writeFile(pidFile, text.replace(/^\d+/, String(foreign.pid)));
      await writeFile(path.join(dataDir, 'starter.lock'), JSON.stringify({ pid: foreign.pid, identity: 'earlier' }));
      const second = await start();
      expect(await isPostgresOf(second.pid, clusterDir)).toBe(true);
      expect(await processIdentity(foreign.pid ?? 0)).toBeDefined();
    } finally {
      foreign.kill('SIGKILL');
    }
  });
});

describe('an ephemeral server', () => {
  test('leaves neither folder nor process', async () => {
    const server = await start({ ephemeral: true });
    const parent = path.dirname(server.clusterDir);
    expect(await query(server.url, 'SHOW fsync')).toEqual([{ fsync: 'off' }]);
    await server.stop();
    await expect(stat(parent)).rejects.toThrow('ENOENT');
    expect(await postgresProcessesOf(server.clusterDir)).toEqual([]);
  });
});

(asRoot ? describe : describe.skip)('as root', () => {
  test('the server runs as uid 65534 in a folder of that user', async () => {
    const server = await start();
    const status = await readFile(`/proc/${server.pid}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t65534\t65534\t65534\t65534$/m);
    expect((await stat(server.clusterDir)).uid).toBe(65534);
  });

  test('a data folder below a closed home works through a linked cluster', async () => {
    const home = path.join(folder, 'home');
    await mkdir(home, { mode: 0o700 });
    const inside = path.join(home, 'clone', 'postgres');
    const server = await start({ dataDir: inside });
    try {
      expect(server.clusterDir.startsWith(home)).toBe(false);
      expect(await realpath(path.join(inside, 'cluster'))).toBe(server.clusterDir);
      expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      await server.stop();
      await rm(server.clusterDir, { recursive: true, force: true });
    }
    await expect(start({ dataDir: inside })).rejects.toThrow('points to a folder that is missing');
  });
});

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.trim().split(' ').filter(Boolean).map(Number);
}
