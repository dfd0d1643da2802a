import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plugin } from '@codedock/proto';
import pino, { type Logger } from 'pino';
import { createPluginRoot, type PluginRoot } from '../../test/plugin-folder.js';
import { startTestHost, type TestHost, until } from '../../test/test-host.js';

let root: PluginRoot;
let running: TestHost | undefined;

beforeEach(() => {
  root = createPluginRoot();
});

afterEach(async () => {
  await running?.close();
  running = undefined;
  root.remove();
});

async function start(
  log: Logger = pino({ level: 'silent' }),
  variables: Record<string, string> = {},
  environment: Record<string, string> = {},
): Promise<TestHost> {
  running = await startTestHost(root.path, log, variables, environment);
  await running.ready();
  // A plugin with a match does not keep the host from the calls of others, so readiness does not wait for it.
  const { host } = running;
  await until(() => host.listPlugins().plugins.every(({ state }) => state !== 'starting'));
  return running;
}

/** A file in which a plugin leaves a word. */
const note = (name: string) => join(root.temporary, name);
const input = (answer: object) => ({ subscriptions: ['agent/input'], answers: { 'agent/input': answer } });
const principal = (tenant: string) => Buffer.from(JSON.stringify({ tenant, agent: 'coder', metadata: {} }));
const ask = (host: TestHost, more: Partial<plugin.Envelope> = {}, budgetMs = 0) =>
  host.host.dispatch({
    port: 'agent/input',
    envelope: plugin.Envelope.fromPartial({
      sessionId: 's1',
      runId: 'r1',
      capability: Buffer.from('cap'),
      payload: Buffer.from('{"content":"x"}'),
      principal: principal('acme'),
      ...more,
    }),
    minChainEpoch: 0,
    budgetMs,
    toolName: '',
  });
const execute = (host: TestHost, name: string, tenant = 'acme') =>
  host.host.executeTool(
    {
      input: plugin.MethodInput.fromPartial({ name, callId: 'c', principal: principal(tenant) }),
      timeoutMs: 0,
      minChainEpoch: 0,
    },
    new AbortController().signal,
  );
const status = (host: TestHost, name: string) => host.host.listPlugins().plugins.find((one) => one.name === name);

describe('match', () => {
  it('spares a plugin every call that is none of its business: gates, events and tools', async () => {
    const file = note('asked');
    root.addFixture(
      'picky',
      {
        subscriptions: ['agent/input', 'run.started'],
        answers: { 'agent/input': { noteAsked: file }, 'run.started': { noteAsked: file } },
        tools: [{ name: 'lookup' }],
      },
      { match: { tenants: ['acme', 'ac-*'], tools: ['sh*'] } },
    );
    const host = await start();
    const event = (tenant: string) =>
      host.host.notify({
        envelope: plugin.Envelope.fromPartial({ type: 'run.started', principal: principal(tenant), runId: tenant }),
      });
    expect((await ask(host, { principal: principal('other') })).outcomes).toMatchObject([{ outcome: 'not matched' }]);
    event('other');
    expect(await execute(host, 'lookup', 'other')).toMatchObject({
      outcome: 'not_sent',
      result: { error: expect.stringContaining('picky does not match') },
    });
    expect((await ask(host)).outcomes).toMatchObject([{ outcome: 'continued' }]);
    event('ac-1');
    expect(await execute(host, 'lookup')).toMatchObject({ outcome: 'answered' });
    await until(() => existsSync(file) && readFileSync(file, 'utf8').split('\n').length === 3);
    expect(readFileSync(file, 'utf8')).toBe('agent/input\nrun.started\n');
    const snapshot = host.host.snapshot();
    expect(snapshot.ports[0]?.subscribers[0]?.matchJson).toBe('{"tenants":["acme","ac-*"],"tools":["sh*"]}');
    expect(snapshot.tools[0]?.matchJson).toBe('{"tenants":["acme","ac-*"]}');
  });

  it('holds for events of other plugins by the call they were emitted in', async () => {
    const file = note('seen');
    const emits = { call: { method: 'emit', request: { type: 'scan.found' } } };
    root.addFixture('emits', input(emits));
    root.addFixture(
      'listens',
      { subscriptions: ['scan.found'], answers: { 'scan.found': { noteAsked: file } } },
      { match: { tenants: ['acme'] } },
    );
    const host = await start();
    await ask(host, { principal: principal('other') });
    await ask(host);
    await until(() => existsSync(file));
    expect(readFileSync(file, 'utf8')).toBe('scan.found\n');
  });

  it('says whom a plugin that never came up fails', async () => {
    root.addScript('broken', '#!/bin/sh\nexit 7\n', { match: { tenants: ['other'] } });
    running = await startTestHost(root.path, pino({ level: 'silent' }));
    const host = running;
    await until(() => status(host, 'broken')?.state === 'failed');
    expect((await ask(host)).failure).toBeUndefined();
    expect((await ask(host, { principal: principal('other') })).failure).toMatchObject({ plugin: 'broken' });
    expect(host.host.snapshot()).toMatchObject({
      ready: true,
      missingRequired: [{ matchJson: '{"tenants":["other"]}' }],
    });
  });
});

describe('shadow mode', () => {
  it('records what would have been decided, adds no time and no failure, and writes nothing', async () => {
    const slow = { sleepMs: 1_000, type: 'input/blocked', reason: 'would refuse' };
    root.addFixture('a-slow', input(slow), { mode: 'shadow' });
    root.addFixture('b-crashes', input({ exit: 1 }), { mode: 'shadow' });
    root.addFixture(
      'c-writes',
      { ...input({ call: { method: 'appendNotice', request: { text: 'hi' } } }), tools: [{ name: 'lookup' }] },
      { mode: 'shadow' },
    );
    root.addScript('d-broken', 'no program', { mode: 'shadow' });
    const host = await start();
    await until(() => ['a-slow', 'b-crashes', 'c-writes'].every((name) => status(host, name)?.state === 'ready'));
    const answer = await ask(host);
    const shadowed = () => host.gateway.records.filter(({ kind }) => kind === 'shadow');
    expect(shadowed().map(({ caller }) => caller?.plugin)).not.toContain('a-slow');
    expect(answer).toMatchObject({ failure: undefined, changed: false });
    expect(answer.outcomes.map(({ outcome }) => outcome.split(':')[0])).toEqual(['shadow', 'shadow', 'shadow']);
    const recorded = (name: string) => shadowed().filter(({ caller }) => caller?.plugin === name);
    await until(() => ['a-slow', 'b-crashes', 'c-writes'].every((name) => recorded(name).length === 1));
    expect(recorded('a-slow')[0]).toMatchObject({
      message: expect.stringMatching(/^agent\/input shadow:blocked in \d+ ms: would refuse$/),
      sessionId: 's1',
      runId: 'r1',
    });
    expect(recorded('b-crashes')[0]?.message).toContain('shadow:crashed');
    expect(host.gateway.calls.filter(({ method }) => method === 'appendNotice')).toEqual([]);
    const snapshot = host.host.snapshot();
    expect(snapshot).toMatchObject({ ready: true, tools: [], missingRequired: [] });
    expect(snapshot.ports[0]?.subscribers.every(({ shadow, required }) => shadow && !required)).toBe(true);
  });
});

describe('slots', () => {
  it('of tools never delay a gate', async () => {
    const asked = note('asked');
    const release = note('release');
    const held = `require('node:fs').appendFileSync(${JSON.stringify(asked)}, 'x');
      while (!require('node:fs').existsSync(${JSON.stringify(release)})) await new Promise((next) => setTimeout(next, 10));
      return 'released';`;
    root.addFixture(
      'busy',
      { ...input({}), tools: [{ name: 'slow' }], execute: { run: held } },
      { maxToolCalls: 8, maxInflight: 1 },
    );
    const host = await start();
    const tools = Promise.all(Array.from({ length: 8 }, () => execute(host, 'slow')));
    await until(() => existsSync(asked) && readFileSync(asked, 'utf8') === 'x'.repeat(8));
    // No tool ends before every gate was answered.
    for (let time = 0; time < 10; time++)
      expect((await ask(host)).outcomes).toMatchObject([{ outcome: 'continued', queueMs: 0 }]);
    writeFileSync(release, '');
    expect((await tools).every(({ outcome }) => outcome === 'answered')).toBe(true);
  });
});

describe('a plugin with all its slots taken', () => {
  it('delays no call that only another one is for', async () => {
    const asked = note('asked');
    const release = note('release');
    const held = `require('node:fs').appendFileSync(${JSON.stringify(asked)}, 'x');
      while (!require('node:fs').existsSync(${JSON.stringify(release)})) await new Promise((next) => setTimeout(next, 10));
      return 'released';`;
    root.addFixture('full', input({ run: held }), { maxInflight: 2, timeoutMs: 30_000, match: { tenants: ['acme'] } });
    root.addFixture('free', input({}), { match: { tenants: ['other'] } });
    const host = await start(undefined, { PLUGIN_RPC_TIMEOUT: '30s', PLUGIN_GATE_TIMEOUT: '30s' });
    const done: string[] = [];
    // Two have its slots, two wait for one.
    const slow = Array.from({ length: 4 }, async () => {
      const { outcomes } = await ask(host);
      done.push('full');
      return outcomes.find(({ plugin: name }) => name === 'full')?.reason;
    });
    await until(() => existsSync(asked) && readFileSync(asked, 'utf8') === 'xx');
    for (let call = 0; call < 5; call++) {
      const { outcomes } = await ask(host, { principal: principal('other') });
      done.push('free');
      expect(outcomes).toMatchObject([
        { plugin: 'free', outcome: 'continued' },
        { plugin: 'full', outcome: 'not matched' },
      ]);
    }
    expect(readFileSync(asked, 'utf8')).toBe('xx');
    writeFileSync(release, '');
    expect(await Promise.all(slow)).toEqual(Array(4).fill('released'));
    expect(done).toEqual([...Array(5).fill('free'), ...Array(4).fill('full')]);
  });

  it('that ends meanwhile fails those that wait for one, and has all of them when it is back', async () => {
    const asked = note('asked');
    const release = note('release');
    const held = `const { appendFileSync, existsSync } = require('node:fs');
      if (existsSync(${JSON.stringify(release)})) return 'back';
      appendFileSync(${JSON.stringify(asked)}, 'x');
      while (!existsSync(${JSON.stringify(release)})) await new Promise((next) => setTimeout(next, 10));
      process.exit(3);`;
    root.addFixture('ends', input({ run: held }), { maxInflight: 1, timeoutMs: 30_000 });
    const host = await start(undefined, { PLUGIN_RPC_TIMEOUT: '30s', PLUGIN_GATE_TIMEOUT: '30s' });
    const asks = Promise.all(Array.from({ length: 3 }, () => ask(host)));
    await until(() => existsSync(asked));
    writeFileSync(release, '');
    const outcomes = (await asks).map((answer) => answer.outcomes[0]?.outcome);
    expect(outcomes).toEqual(['crashed', 'not ready', 'not ready']);
    await until(() => status(host, 'ends')?.state === 'ready');
    expect((await ask(host)).outcomes).toMatchObject([{ outcome: 'continued', reason: 'back' }]);
  });
});

describe('command', () => {
  it('with an interpreter gets the variables of the allow-list and of plugin.json, and no other', async () => {
    const folder = root.addFixture('launched', input({ run: "return Object.keys(process.env).sort().join(' ')" }));
    const settings = JSON.parse(readFileSync(join(folder, 'plugin.json'), 'utf8'));
    const command = ['node', 'launched'];
    writeFileSync(join(folder, 'plugin.json'), JSON.stringify({ ...settings, command, env: ['NAMED_IN_PLUGIN_JSON'] }));
    const host = await start(undefined, {}, { SOME_SECRET: 'secret', NAMED_IN_PLUGIN_JSON: 'x', HOME: '/', LANG: 'C' });
    const names = ((await ask(host)).outcomes[0]?.reason ?? '').split(' ');
    expect(names).toEqual([
      'CODEDOCK_PLUGIN',
      'CODEDOCK_PLUGIN_CONFIG',
      'CODEDOCK_PLUGIN_INSTANCE',
      'CODEDOCK_PLUGIN_NAME',
      'HOME',
      'LANG',
      'NAMED_IN_PLUGIN_JSON',
      'PATH',
      'PLUGIN_CLIENT_CERT',
      'PLUGIN_MAX_PORT',
      'PLUGIN_MIN_PORT',
      'PLUGIN_PROTOCOL_VERSIONS',
      'PLUGIN_UNIX_SOCKET_DIR',
      'TMPDIR',
    ]);
  });
});

describe('sha256', () => {
  const digestOf = (folder: string, file: string) =>
    createHash('sha256')
      .update(readFileSync(join(folder, file)))
      .digest('hex');

  it('is checked on a copy, and the copy is what runs', async () => {
    const folder = root.addFixture('sealed', input({ run: 'return require.main.filename' }));
    const settings = JSON.parse(readFileSync(join(folder, 'plugin.json'), 'utf8'));
    const sha256 = digestOf(folder, 'sealed');
    writeFileSync(join(folder, 'plugin.json'), JSON.stringify({ ...settings, sha256 }));
    const host = await start();
    writeFileSync(join(folder, 'sealed'), '#!/bin/sh\nexit 1\n');
    const program = (await ask(host)).outcomes[0]?.reason ?? '';
    expect(program).toMatch(/\/program\/sealed$/);
    expect(digestOf(program, '')).toBe(sha256);
    expect(status(host, 'sealed')?.checksum).toHaveLength(64);
    await expect(host.host.reloadPlugin('sealed')).rejects.toThrow(
      /sealed has the SHA-256 [0-9a-f]{64}, "sha256" in plugin.json says/,
    );
    expect((await ask(host)).failure).toBeUndefined();
  });
});

describe('limits', () => {
  const breaks = async (body: string, limits: object, wanted: RegExp) => {
    root.addFixture('greedy', input({ run: body }), { limits, restart: { policy: 'never' } });
    const host = await start();
    const answer = await ask(host, {}, 10_000);
    expect(answer.outcomes).toMatchObject([{ outcome: 'crashed', reason: expect.stringMatching(wanted) }]);
    expect(status(host, 'greedy')).toMatchObject({ state: 'failed', reason: expect.stringMatching(wanted) });
  };

  it('memory: it is killed, and the message says by how much', async () => {
    await breaks(
      'globalThis.kept = Buffer.alloc(400 * 1024 * 1024, 1); await new Promise(() => {});',
      { memoryMb: 256 },
      /it was killed: it used \d+ MiB of memory, "limits.memoryMb" is 256/,
    );
  });

  it('memory of what it started counts too', async () => {
    const child = 'const kept = Buffer.alloc(300 * 1024 * 1024, 1); setInterval(() => kept, 1000)';
    await breaks(
      `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(child)}], { detached: true }); await new Promise(() => {});`,
      { memoryMb: 256 },
      /it used \d+ MiB of memory/,
    );
  });

  it('processes: it is killed with all of them', async () => {
    await breaks(
      `for (let at = 0; at < 20; at++) require('node:child_process').spawn('sleep', ['604'], { detached: true }); await new Promise(() => {});`,
      { processes: 5 },
      /it had \d+ processes, "limits.processes" is 5/,
    );
  });

  it('open files: opening more fails in the plugin', async () => {
    const body = `const fs = require('node:fs'); const open = []; try { for (;;) open.push(fs.openSync('/dev/null')); } catch (error) { for (const file of open) fs.closeSync(file); return error.code + ' ' + (open.length < 128); }`;
    root.addFixture('greedy', input({ run: body }), { limits: { openFiles: 128 } });
    const host = await start();
    expect((await ask(host)).outcomes).toMatchObject([{ outcome: 'continued', reason: 'EMFILE true' }]);
  });

  it('log rate: what is beyond it is counted, not kept, and delays nothing', async () => {
    const body = `const line = 'x'.repeat(1000); for (let at = 0; at < 2000; at++) process.stderr.write(line + '\\n'); await new Promise((done) => process.stderr.write('', done)); return 'done';`;
    root.addFixture('chatty', input({ run: body }), { limits: { logBytesPerSecond: 10_000 } });
    const lines: string[] = [];
    const host = await start(pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) }));
    expect((await ask(host)).outcomes).toMatchObject([{ reason: 'done' }]);
    await host.host.stopPlugin('chatty');
    const kept = lines.filter((line) => line.includes('xxxxxxxxxx'));
    expect(kept.length).toBeLessThan(40);
    const suppressed = lines.flatMap((line) => JSON.parse(line).suppressed ?? []);
    expect(kept.length + suppressed.reduce((sum: number, some: number) => sum + some, 0)).toBe(2_000);
  });
});

describe('restart', () => {
  it('never: it stays down, its gates fail, and an administrator can start it', async () => {
    root.addFixture('once', input({ exit: 3 }), { restart: { policy: 'never' } });
    const host = await start();
    await ask(host);
    expect(status(host, 'once')).toMatchObject({
      state: 'failed',
      reason: expect.stringMatching(/exit code 3.*"restart.policy" is "never".*codedock plugins start once/),
    });
    expect((await ask(host)).failure).toMatchObject({ plugin: 'once' });
    expect(await host.host.startPlugin('once')).toMatchObject({ state: 'ready', generation: 2 });
  });

  it('on-failure: not after a quiet end with exit code 0, always: then too', async () => {
    const leaves = { run: 'setTimeout(() => process.exit(0), 50); return 1' };
    root.addFixture('quiet', input(leaves));
    root.addFixture('stubborn', input(leaves), { restart: { policy: 'always', backoffMs: 100 } });
    const host = await start();
    await ask(host);
    await until(() => status(host, 'quiet')?.state === 'failed');
    await until(() => status(host, 'stubborn')?.generation === 2);
    expect(status(host, 'quiet')?.reason).toContain('exit code 0');
  });

  it('shows why a plugin has crashed, with its last words', async () => {
    root.addFixture('crashes', input({ log: 'out of cheese', exit: 3 }), { restart: { backoffMs: 5_000 } });
    const host = await start();
    await ask(host);
    expect(status(host, 'crashes')?.reason).toMatch(/its process ended by itself: exit code 3.*out of cheese/);
  });
});
