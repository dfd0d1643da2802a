import { readdirSync, readFileSync } from 'node:fs';
import { cp, mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  freePort,
  type RecordingProvider,
  recordingProvider,
  repositoryRoot,
  says,
  startProcess,
  type TemporaryFolder,
  type TestProcess,
  temporaryFolder,
  within,
} from '@codedock/testkit';
import { apiOf } from '../api.js';

/** A build of what has changed since the last one is part of a start, milliseconds. */
const START_MS = 240_000;
const STEPS = [
  'the secret was taken out before anything was stored',
  'the model got the same text and nothing else',
  'a tool call was vetoed by a policy and never executed',
  'the run ended in good order',
  'every gate is in the audit',
];

let data: TemporaryFolder;
let provider: RecordingProvider;

beforeAll(async () => {
  data = await temporaryFolder('codedock-start-');
  provider = await recordingProvider();
});
afterAll(async () => {
  await provider?.close();
  await data?.remove();
  await expectNoLeftovers();
});

/** `npm start` without npm, in a process group of its own as at a terminal. */
async function launch(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<TestProcess> {
  return startProcess({
    command: process.execPath,
    args: [path.join(repositoryRoot(), 'scripts', 'start.mjs'), ...args],
    env: { CODEDOCK_DATA_DIR: data.path, CODEDOCK_HTTP_LISTEN: `127.0.0.1:${await freePort()}`, ...env },
    detached: true,
    name: 'npm start',
  });
}

/** Prints what the command prints in the folder of the installation. */
async function codedock(...args: readonly string[]): Promise<string> {
  const command = await startProcess({
    command: process.execPath,
    args: [path.join(repositoryRoot(), 'apps', 'cli', 'dist', 'main.js'), ...args],
    env: { CODEDOCK_DATA_DIR: data.path },
    name: 'codedock',
  });
  expect({ ...(await command.exited), error: command.stderr() }).toEqual({ code: 0, signal: null, error: '' });
  return command.stdout();
}

/** One running process: its number alone may be another's later. */
interface Running {
  readonly pid: number;
  readonly parent: number;
  readonly since: string;
  readonly about: string;
}

function processes(): Running[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        if (fields[0] === 'Z') return [];
        const about = readFileSync(`/proc/${name}/cmdline`, 'utf8') + readFileSync(`/proc/${name}/environ`, 'utf8');
        return [{ pid: Number(name), parent: Number(fields[1]), since: fields[19] as string, about }];
      } catch {
        return [];
      }
    });
}

/** What a start has brought up, down to plugins and database: its descendants, and whatever names its data folder. */
function broughtUp(starter: number): Running[] {
  const all = processes();
  const family = new Set([starter]);
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid);
  }
  return all.filter(({ pid, about }) => family.has(pid) || about.includes(data.path));
}

async function expectGone(what: readonly Running[]): Promise<void> {
  const known = new Set(what.map(({ pid, since }) => `${pid} ${since}`));
  await eventually(
    () => {
      const left = processes().filter(
        ({ pid, since, about }) => known.has(`${pid} ${since}`) || about.includes(data.path),
      );
      expect(left.map(({ pid, about }) => `${pid} ${about.replaceAll('\u0000', ' ').slice(0, 200)}`)).toEqual([]);
    },
    { timeoutMs: 15_000, what: 'every process of the start to be gone' },
  );
}

/** Waits until it stays up; answers what it printed for its user. */
async function up(starter: TestProcess): Promise<{ url: string; key: string; running: Running[] }> {
  await starter.waitForOutput(/Ctrl-C stops everything|did not start|ended with/, START_MS);
  const [, url = ''] = /url {2}(\S+)/.exec(starter.output()) ?? [];
  const [, key = ''] = /key {2}(\S+)/.exec(starter.output()) ?? [];
  if (url === '') throw new Error(starter.output());
  const running = broughtUp(starter.pid);
  // Starter, three services, two plugins and a policy, the database server: at the least.
  expect(running.length).toBeGreaterThanOrEqual(8);
  return { url, key, running };
}

describe('npm start', () => {
  it(
    '--once on an empty folder demonstrates every step, ends with 0 and leaves nothing running',
    async () => {
      const starter = await launch(['--once']);
      const { code } = await starter.exited;
      for (const step of STEPS) expect(starter.output()).toContain(`✓ ${step}`);
      expect({ code, output: code === 0 ? '' : starter.output() }).toEqual({ code: 0, output: '' });
      expect(starter.output()).not.toContain('✗');
      expect(starter.output()).toMatch(/gate +plugin +decision +ms/);
      expect(starter.output()).toMatch(/beforeInput +redact +changed/);
      expect(starter.output()).toMatch(/beforeToolCall +policy-demo +blocked/);
      expect(starter.output()).toMatch(/ready in \d+\.\d s/);
      await expectGone([]);
    },
    START_MS,
  );

  let firstKey: string;
  let session: string;

  it(
    'stays up, answers with the printed key, asks the real model if there is one; Ctrl-C ends everything',
    async () => {
      provider.otherwise(says('Good day.'));
      const starter = await launch(['--traces'], {
        OPENAI_API_KEY: 'sk-test',
        OPENAI_BASE_URL: provider.baseUrl,
        CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
      });
      const { url, key, running } = await up(starter);
      expect(starter.output()).toContain('✓ the model behind OPENAI_BASE_URL answered\n');
      expect(starter.output()).toContain('Good day.');
      expect(provider.requests.at(-1)?.header('authorization')).toBe('Bearer sk-test');
      firstKey = key;
      expect((await readFile(path.join(data.path, 'api-key'), 'utf8')).trim()).toBe(key);
      const api = apiOf(url, key);
      const created = await api<{ id: string }>('POST', '/v1/sessions', { title: 'kept' });
      expect(created.status).toBe(201);
      session = created.body.id;
      const run = await api<{ runId: string }>('POST', `/v1/sessions/${session}/runs`, { content: 'hello' });
      // Every process has sent its part once the last span, the attempt's own, is there.
      const shown = await eventually(
        async () => {
          const text = await codedock('runs', 'trace', run.body.runId, '--spans');
          expect(text).toMatch(/^run execute +runner +ended/m);
          return text;
        },
        { timeoutMs: 30_000 },
      );
      expect(shown).toMatch(/^POST \/v1\/sessions\/:sessionId\/runs +gateway/m);
      expect(shown).toMatch(/^ +plugin redact agent\/input +plugin-host +continued/m);
      expect(await codedock('runs', 'trace', run.body.runId)).toMatch(/^model +completed +\d/m);
      // At a terminal Ctrl-C reaches the whole group at once.
      process.kill(-starter.pid, 'SIGINT');
      expect(await starter.exited).toEqual({ code: 0, signal: null });
      await expectGone(running);
    },
    START_MS,
  );

  it(
    'again: the same key and data; kill -9 of it takes everything along',
    async () => {
      const starter = await launch(['--no-demo']);
      const { url, key, running } = await up(starter);
      expect(key).toBe(firstKey);
      const kept = await apiOf(url, key)('GET', `/v1/sessions/${session}`);
      expect(kept).toMatchObject({ status: 200, body: { title: 'kept' } });
      await starter.kill();
      await expectGone(running);
    },
    START_MS,
  );

  it(
    'works after a kill -9, and ends with 1 where the policy of the demonstration is missing',
    async () => {
      const plugins = path.join(data.path, 'own-plugins');
      for (const name of ['redact', 'example']) {
        await mkdir(path.join(plugins, name), { recursive: true });
        await cp(path.join(repositoryRoot(), 'plugin', name, name), path.join(plugins, name, name));
      }
      const starter = await launch(['--once'], { PLUGIN_DIR: plugins });
      expect((await starter.exited).code).toBe(1);
      expect(starter.output()).toContain('✗ a tool call was vetoed by a policy and never executed');
      expect(starter.output()).toContain('✓ the secret was taken out before anything was stored');
      await expectGone([]);
    },
    START_MS,
  );

  it(
    'interrupted while it starts, it stops what it has started',
    async () => {
      const starter = await launch([]);
      // The first line of a service: all are started, none is ready.
      await starter.waitForOutput(/^(gateway|runner|plugin-host) |did not start/m, START_MS);
      expect(starter.output()).not.toContain('did not start');
      const running = broughtUp(starter.pid);
      process.kill(-starter.pid, 'SIGINT');
      expect((await within(starter.exited, 20_000, 'the interrupted start to end')).code).toBe(130);
      await expectGone(running);
    },
    START_MS,
  );

  it(
    'refuses a data folder that is none, and unknown options, by name',
    async () => {
      const file = path.join(data.path, 'api-key');
      const refused = await launch(['--once'], { CODEDOCK_DATA_DIR: file });
      expect((await refused.exited).code).toBe(1);
      expect(refused.output()).toMatch(/CODEDOCK_DATA_DIR/);
      const unknown = await launch(['--onec']);
      expect((await unknown.exited).code).toBe(2);
      expect(unknown.output()).toContain('--onec');
    },
    START_MS,
  );
});
