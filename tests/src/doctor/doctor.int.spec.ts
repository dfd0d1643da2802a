import path from 'node:path';
import {
  createTestDatabase,
  eventually,
  expectNoLeftovers,
  freePort,
  repositoryRoot,
  startProcess,
} from '@codedock/testkit';
import { writePolicy } from '../gates/policies.js';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly where: string;
  readonly detail: string;
  readonly remedy?: string;
}

let system: System;

beforeAll(async () => {
  system = await startSystem({
    env: { CODEDOCK_LEASE_TTL: '3s', CODEDOCK_LEASE_HEARTBEAT: '600ms' },
    plugins: (root) => writePolicy(root, 'policy', { ports: ['tools/pre-execute'] }),
  });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await expectNoLeftovers();
});

/** What the doctor says of the system, in an environment that differs as given. */
async function doctor(env: Readonly<Record<string, string>> = {}, ...args: readonly string[]) {
  const command = await startProcess({
    command: process.execPath,
    args: [path.join(repositoryRoot(), 'apps/cli/dist/main.js'), 'doctor', '--json', ...args],
    env: { CODEDOCK_URL: system.url, CODEDOCK_API_KEY: system.key, DATABASE_URL: system.databaseUrl, ...env },
    name: 'codedock doctor',
  });
  const { code } = await command.exited;
  if (!command.stdout().startsWith('{')) throw new Error(command.output());
  const { ok, findings } = JSON.parse(command.stdout()) as { ok: boolean; findings: Finding[] };
  expect({ ok, code }).toEqual(
    findings.some(({ state }) => state === 'failed') ? { ok: false, code: 1 } : { ok: true, code: 0 },
  );
  return findings;
}

const failed = (findings: readonly Finding[]) => findings.filter(({ state }) => state === 'failed');

describe('codedock doctor', () => {
  it('finds nothing wrong with a system that works', async () => {
    const findings = await doctor();
    expect(failed(findings)).toEqual([]);
    expect(findings).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ check: 'configuration', where: 'gateway', state: 'ok' }),
        expect.objectContaining({ check: 'database', state: 'ok' }),
        expect.objectContaining({ check: 'clock', state: 'ok' }),
        expect.objectContaining({ check: 'leases', state: 'ok' }),
        expect.objectContaining({ check: 'queue', where: 'QUEUE_URL', state: 'ok' }),
        expect.objectContaining({ check: 'gateway', state: 'ok' }),
        expect.objectContaining({ check: 'plugins', state: 'ok', detail: expect.stringMatching(/^1 plugins on 1 /) }),
      ]),
    );
  });

  it('names what cannot be reached, each with its remedy', async () => {
    const nowhere = `127.0.0.1:${await freePort()}`;
    expect(failed(await doctor({ DATABASE_URL: `postgres://u@${nowhere}/d`, QUEUE_URL: system.databaseUrl }))).toEqual([
      expect.objectContaining({ check: 'database', detail: expect.stringContaining('DATABASE_URL') }),
    ]);
    expect(failed(await doctor({ QUEUE_URL: `redis://${nowhere}` }))).toEqual([
      expect.objectContaining({ check: 'queue', detail: expect.stringContaining('QUEUE_URL') }),
    ]);
    expect(failed(await doctor({}, '--url', `http://${nowhere}`))).toEqual([
      expect.objectContaining({ check: 'gateway', where: `http://${nowhere}`, remedy: expect.any(String) }),
    ]);
    expect(failed(await doctor({ CODEDOCK_API_KEY: 'cdk_wrong' }))).toEqual([
      expect.objectContaining({ check: 'plugins', detail: expect.stringContaining('401') }),
    ]);
  });

  it('names a contradiction of the configuration and a migration that is missing', async () => {
    expect(failed(await doctor({ PLUGIN_RPC_TIMEOUT: '3s' }, '--app', 'runner'))).toEqual([
      expect.objectContaining({ check: 'configuration', where: 'runner: PLUGIN_RPC_TIMEOUT' }),
    ]);
    const other = await createTestDatabase();
    try {
      await system.db.query('SELECT 1');
      const { Client } = await import('pg');
      const client = new Client({ connectionString: other.url });
      await client.connect();
      await client.query('DELETE FROM _prisma_migrations');
      await client.end();
      const [finding] = failed(await doctor({ DATABASE_URL: other.url, QUEUE_URL: system.databaseUrl }));
      expect(finding).toMatchObject({ check: 'database', detail: expect.stringContaining('migrat') });
    } finally {
      await other.drop();
    }
  });

  it('sees that runs lost their runner, that others wait, and that plugins cannot be asked', async () => {
    const hanging = await system.startRun(await system.createSession(), { content: fakeScript({ hang: true }) });
    await system.waitForRun(hanging.id, ({ status }) => status === 'running');
    await system.runners[0]?.kill();
    const waiting = await system.startRun(await system.createSession(), { content: 'hello' });
    await system.db.query("UPDATE runs SET queued_at = queued_at - interval '10 minutes' WHERE id = $1", [waiting.id]);
    await system.pluginHosts[0]?.kill();
    await eventually(
      async () => {
        const checks = failed(await doctor()).map(({ check }) => check);
        expect(checks).toEqual(expect.arrayContaining(['leases', 'queue', 'plugins', 'plugin-host']));
      },
      { timeoutMs: 60_000 },
    );
  }, 120_000);
});
