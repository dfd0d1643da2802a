import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { definePlugin } from '@codedock/plugin-sdk';
import { readRecording, replay } from '@codedock/plugin-sdk/testing';
import {
  expectNoLeftovers,
  repositoryRoot,
  startProcess,
  type TemporaryFolder,
  type TestProcess,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

const program = path.join(repositoryRoot(), 'apps/cli/bin/codedock.cjs');
const LONG_MS = 120_000;

const shellTool = `
import { defineTool, serve } from '@codedock/plugin-sdk';
const parameters = { type: 'object', properties: { command: { type: 'string' } } } as const;
serve({
  name: 'machine',
  version: '1.0.0',
  tools: [defineTool({ name: 'shell', description: 'Runs.', parameters, execute: () => 'ran' })],
});
`;
const policy = (version: string, decision: string) => `
VERSION = "${version}"
CONFIG = {}


def on_tool_pre_execute(envelope):
    return ${decision}


HANDLERS = {"tools/pre-execute": on_tool_pre_execute}
`;
const DENIES = '{"type": "tools/denied", "reason": "not here"} if "rm" in str(envelope["payload"]) else None';

const hasPython = spawnSync('python3', ['--version']).status === 0;
if (!hasPython) process.stderr.write("skipped: an author's day: there is no python3 on PATH\n");
const describeWithPython = hasPython ? describe : describe.skip;

describeWithPython("an author's day", () => {
  let work: TemporaryFolder;
  let system: System;
  let folder: string;
  let recording: string;

  beforeAll(async () => {
    work = await temporaryFolder('cda-');
    system = await startSystem({
      plugins: async (root) => void (await writePlugin(root, '10-machine', { source: shellTool })),
      env: { PLUGIN_GATE_TIMEOUT: '20s', PLUGIN_RPC_TIMEOUT: '20s' },
    });
    folder = path.join(work.path, 'guard');
    recording = path.join(work.path, 'asked.jsonl');
    await codedock('plugin', 'new', 'guard', '--language', 'python', '--in', work.path);
  }, START_MS);

  afterAll(async () => {
    await system?.stop();
    await work?.remove();
    await expectNoLeftovers();
  });

  const variables = () => ({ CODEDOCK_URL: system.url, CODEDOCK_API_KEY: system.key });

  /** The command to its end, with its exit code. */
  async function codedock(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const env = { ...process.env, ...variables() };
    const run = promisify(execFile)(process.execPath, [program, ...args], { cwd: work.path, env });
    return run.then(
      (printed) => ({ code: 0, ...printed }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, stdout, stderr }),
    );
  }

  /** The command in the background. */
  function start(...args: string[]): Promise<TestProcess> {
    return startProcess({ command: process.execPath, args: [program, ...args], cwd: work.path, env: variables() });
  }

  const write = (version: string, decision: string) =>
    writeFile(path.join(folder, 'policy.py'), policy(version, decision));

  async function outcomeOf(command: string): Promise<string> {
    const run = await system.runToEnd(
      fakeScript({ toolCalls: [{ name: 'shell', arguments: { command } }] }, { text: 'done' }),
    );
    const result = (await system.events(run.sessionId)).find(({ type }) => type === 'tool.execution_result');
    return JSON.stringify((result?.payload as { result?: object } | undefined)?.result);
  }

  it(
    'a plugin is loaded into a running installation, reloaded on a change, and taken out when its author stops',
    async () => {
      await write('1.0.0', DENIES);
      const dev = await start('plugin', 'dev', folder, '--root', system.pluginRoot);
      await dev.waitForOutput(/guard: ready, version 1\.0\.0, generation 1/, LONG_MS);
      expect(await outcomeOf('rm x')).toContain('not here');
      expect(await outcomeOf('ls')).toContain('ran');

      await write('2.0.0', 'None');
      await dev.waitForOutput(/guard: ready, version 2\.0\.0, generation 2/, LONG_MS);
      expect(await outcomeOf('rm x')).toContain('ran');

      await write('3.0.0', ')');
      await dev.waitForOutput(/guard: refused: .*SyntaxError/s, LONG_MS);
      expect(await outcomeOf('rm x')).toContain('ran');

      await write('4.0.0', DENIES);
      await dev.waitForOutput(/guard: ready, version 4\.0\.0/, LONG_MS);
      expect(await outcomeOf('rm x')).toContain('not here');

      dev.signal('SIGINT');
      expect(await dev.exited).toMatchObject({ code: 0 });
      expect(existsSync(path.join(system.pluginRoot, 'guard'))).toBe(false);
      expect(await outcomeOf('rm x')).toContain('ran');
    },
    LONG_MS * 3,
  );

  it(
    'what it is asked is recorded, and a new version is told exactly where it decides otherwise',
    async () => {
      await write('1.0.0', DENIES);
      expect(await codedock('plugin', 'dev', folder, '--root', system.pluginRoot, '--once')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('guard: ready, version 1.0.0'),
      });
      const record = await start('plugin', 'record', 'guard', '--out', recording, '--limit', '2');
      await record.waitForOutput(/recording what guard is asked/, LONG_MS);
      const secret = 'AKIAIOSFODNN7EXAMPLE';
      await outcomeOf(`rm ${secret}`);
      await outcomeOf('ls');
      expect(await record.exited).toMatchObject({ code: 0 });
      expect(record.stdout()).toContain('2 questions in');
      const text = readFileSync(recording, 'utf8');
      expect(text).not.toContain(secret);
      expect(statSync(recording).mode & 0o077).toBe(0);
      const lines = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      expect(lines).toMatchObject([
        {
          question: { type: 'tools/pre-execute', payload: { call: { name: 'shell' } } },
          answer: { reason: 'not here' },
        },
        { question: { type: 'tools/pre-execute' }, answer: {} },
      ]);
      // The SDK's own replay reads the same file.
      const twin = definePlugin({
        name: 'twin',
        version: '1.0.0',
        onToolPreExecute: (input) => (input.call.arguments === undefined ? input.reply() : input.deny('never')),
      });
      expect((await replay(twin, readRecording(text))).map(({ agrees }) => agrees)).toEqual([true, false]);

      const same = await codedock('plugin', 'test', folder, '--replay', recording, '--json');
      expect(same).toMatchObject({ code: 0 });
      expect(JSON.parse(same.stdout)).toMatchObject({ passed: true, own: { passed: true } });

      await write('2.0.0', '{"type": "tools/ask", "reason": "really?"}');
      const other = await codedock('plugin', 'test', folder, '--replay', recording);
      expect(other.code).toBe(1);
      expect(other.stdout).toContain(
        'asked.jsonl question 1, tools/pre-execute: recorded blocked: not here, now asked: really?',
      );
      expect(other.stdout).toContain('decision: recorded continued, now asked');
      expect(other.stdout).toContain('0 as recorded, 2 not');

      expect(await codedock('plugin', 'record', 'guard', '--out', recording)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('exists already; give --append, or another file'),
      });
      expect(await codedock('plugin', 'record', 'nobody', '--out', 'x.jsonl')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('plugin_not_found'),
      });
    },
    LONG_MS * 3,
  );

  it(
    'only administrators look at what a plugin is asked, and only at questions of their tenant',
    async () => {
      const path = '/v1/plugins/10-machine/recording';
      // By hand: fetch opens a further connection when one is aborted, and a connection without a request delays the end.
      const follow = async (key: string) => {
        const request = get(`${system.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
        const [response] = (await once(request, 'response')) as [IncomingMessage];
        request.destroy();
        return { status: response.statusCode, type: response.headers['content-type'] };
      };
      expect(await follow(await system.createKey({ scopes: ['runs'] }))).toMatchObject({ status: 403 });
      expect(await follow(await system.createKey({ tenant: 'stranger' }))).toEqual({
        status: 200,
        type: 'application/x-ndjson',
      });
      const { rows } = await system.db.query(
        `SELECT target FROM admin_audit WHERE action = 'plugin.record' AND target = '10-machine'`,
      );
      expect(rows).toHaveLength(1);
    },
    LONG_MS,
  );

  it(
    'its ports are measured against a bare call of the same run',
    async () => {
      await write('1.0.0', 'None');
      const bench = await codedock('plugin', 'bench', folder, '--calls', '20', '--json');
      expect(bench).toMatchObject({ code: 0 });
      const figures = JSON.parse(bench.stdout) as { floor: string; ports: Record<string, number>[] };
      expect(figures).toMatchObject({ name: 'guard', floor: 'a line to a process and back' });
      expect(figures.ports).toEqual([
        expect.objectContaining({ port: 'tools/pre-execute', calls: 20, p50_ms: expect.any(Number) }),
      ]);
    },
    LONG_MS,
  );

  it('a plugin that cannot be made is refused with what to do', async () => {
    const refused = async (...args: string[]) => (await codedock('plugin', 'new', ...args)).stderr;
    expect(await refused('Bad Name')).toContain('such as bad-name');
    expect(await refused('guard', '--in', work.path)).toContain('exists already');
    expect(await refused('x', '--language', 'rust')).toContain('choose one of typescript, go, python, shell');
    expect(await refused('x', '--in', path.join(work.path, 'nowhere'))).toContain('name another one by --in');
    expect((await codedock('plugin', 'test', path.join(work.path, 'nowhere'))).stderr).toContain('is no folder');
    await writeFile(path.join(work.path, 'bad.jsonl'), '{}');
    expect((await codedock('plugin', 'test', folder, '--replay', path.join(work.path, 'bad.jsonl'))).stderr).toContain(
      'line 1 of',
    );
  });
});
