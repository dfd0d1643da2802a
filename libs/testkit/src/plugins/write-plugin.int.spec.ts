import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { eventually } from '../processes/eventually.js';
import type { PluginMode } from './hostile/mode.js';
import { PluginProcess } from './plugin-process.js';
import type { TestHost } from './test-host.js';
import { writePlugin } from './write-plugin.js';

let root: string;
const started: PluginProcess[] = [];

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'cdw'));
});

afterEach(async () => {
  for (const process of started.splice(0)) await process.dispose();
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

async function start(mode: PluginMode): Promise<PluginProcess> {
  const process = await PluginProcess.start(await writePlugin(root, mode.mode, mode), {
    services: { registerMethod: (_, callback) => callback(null, {}) },
  });
  started.push(process);
  return process;
}

async function ready(mode: PluginMode): Promise<{ process: PluginProcess; host: TestHost }> {
  const process = await start(mode);
  const host = await process.connect();
  await host.bootstrap();
  return { process, host };
}

const call = { call: { id: 'c1', name: 'ping', arguments: {} } };
const json = (bytes: Buffer) => JSON.parse(bytes.toString('utf8')) as unknown;

describe('a written plugin', () => {
  it('is an executable with its plugin.json, and replaced when written again', async () => {
    const pluginJson = { required: false, config: { a: 1 } };
    const path = await writePlugin(root, 'twice', { mode: 'handled', pluginJson });
    expect(path).toBe(join(root, 'twice', 'twice'));
    expect(statSync(path).mode & 0o777).toBe(0o755);
    expect(JSON.parse(readFileSync(join(root, 'twice', 'plugin.json'), 'utf8'))).toEqual(pluginJson);
    const text = readFileSync(path, 'utf8');
    expect(text.startsWith('#!/usr/bin/env node\n')).toBe(true);
    await writePlugin(root, 'twice', { mode: 'silent' });
    expect(readFileSync(path, 'utf8')).not.toBe(text);
  });
});

describe('modes', () => {
  it.each<[PluginMode, string, object]>([
    [{ mode: 'block', port: 'agent/input', reason: 'no' }, 'agent/input', { type: 'input/blocked', reason: 'no' }],
    [{ mode: 'handled' }, 'agent/input', { type: 'input/handled' }],
    [{ mode: 'deny', tools: ['ping'] }, 'tools/pre-execute', { type: 'tools/denied' }],
    [{ mode: 'deny', tools: ['other'] }, 'tools/pre-execute', { type: 'tools/pre-execute' }],
    [{ mode: 'ask', arguments: { b: 1 } }, 'tools/pre-execute', { type: 'tools/ask' }],
    [{ mode: 'skip', result: 'r' }, 'tools/pre-execute', { type: 'tools/skipped', skipResult: Buffer.from('"r"') }],
    [{ mode: 'abort' }, 'tools/pre-execute', { type: 'run/aborted' }],
    [{ mode: 'wrong-direction', port: 'agent/request' }, 'agent/request', { type: 'nonsense/type' }],
    [
      { mode: 'scratchpad', port: 'agent/input', key: 'k', value: 1 },
      'agent/input',
      { context: Buffer.from('{"k":1}') },
    ],
  ])('%j', async (mode, port, answer) => {
    const { host } = await ready(mode);
    expect(
      await host.ask(port, port === 'tools/pre-execute' ? call : { content: 'a', system_prompt: 's' }),
    ).toMatchObject(answer);
  });

  it.each<[PluginMode, string, object, unknown]>([
    [
      { mode: 'transform', port: 'agent/input', changes: { content: 'b' } },
      'agent/input',
      { content: 'a' },
      { content: 'b' },
    ],
    [{ mode: 'append', port: 'agent/input', text: '!' }, 'agent/input', { content: 'a' }, { content: 'a!' }],
    [{ mode: 'wrong-type', port: 'agent/input' }, 'agent/input', { content: 'a' }, { content: 7 }],
    [{ mode: 'change-call-id' }, 'tools/pre-execute', call, { call: { ...call.call, id: 'another-call' } }],
  ])('%j changes the payload', async (mode, port, payload, answered) => {
    const { host } = await ready(mode);
    expect(json((await host.ask(port, payload)).payload)).toEqual(answered);
  });

  it('garbage and oversize', async () => {
    const garbage = (
      await (await ready({ mode: 'garbage', port: 'agent/input' })).host.ask('agent/input', { content: 'a' })
    ).payload;
    expect(() => json(garbage)).toThrow();
    const large = await (await ready({ mode: 'oversize', port: 'agent/input' })).host.ask('agent/input', {
      content: 'a',
    });
    expect(large.payload.length).toBeGreaterThan(5 * 1024 * 1024);
  });

  it('throw and hang', async () => {
    const throwing = (await ready({ mode: 'throw', port: 'agent/input', message: 'm' })).host;
    await expect(throwing.ask('agent/input', { content: 'a' })).rejects.toMatchObject({ details: 'm' });
    const hanging = (await ready({ mode: 'hang', port: 'agent/input' })).host;
    await expect(hanging.ask('agent/input', { content: 'a' }, {}, { timeoutMs: 200 })).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
  });

  it.each<[PluginMode, object]>([
    [
      { mode: 'exit', port: 'agent/input', code: 7 },
      { code: 7, signal: null },
    ],
    [
      { mode: 'kill-self', port: 'agent/input' },
      { code: null, signal: 'SIGKILL' },
    ],
  ])('%j', async (mode, exit) => {
    const { process, host } = await ready(mode);
    await expect(host.ask('agent/input', { content: 'a' })).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(await process.exited).toEqual(exit);
  });

  it('print before the handshake, end at the start', async () => {
    expect(await (await start({ mode: 'print-before-handshake', text: 'loading' })).handshake()).toBe('loading');
    expect(await (await start({ mode: 'exit-at-start', code: 4 })).exited).toEqual({ code: 4, signal: null });
  });

  it('count what is asked and told', async () => {
    const file = join(root, 'questions');
    const { host } = await ready({ mode: 'count', file, ports: ['agent/input'], events: ['run.started'] });
    await host.ask('agent/input', { content: 'a' });
    await host.ask('run.started', {});
    const lines = readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { port: string; envelope: { payload: string } });
    expect(lines.map(({ port, envelope }) => [port, envelope.payload])).toEqual([
      ['agent/input', '{"content":"a"}'],
      ['run.started', '{}'],
    ]);
  });

  it('stay after Shutdown, answered or not', async () => {
    const staying = await ready({ mode: 'ignore-shutdown' });
    await staying.host.shutdown();
    const silent = await ready({ mode: 'hang-at-shutdown' });
    await expect(silent.host.shutdown({ timeoutMs: 200 })).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    for (const { process, host } of [staying, silent]) {
      expect(process.child.exitCode).toBeNull();
      expect(await host.health()).toBe(1);
    }
  });

  it('leave a grandchild that names itself', async () => {
    const pidFile = join(root, 'grandchild');
    await ready({ mode: 'spawn-grandchild', pidFile });
    const pid = Number(readFileSync(pidFile, 'utf8'));
    expect(process.kill(pid, 0)).toBe(true);
    process.kill(pid, 'SIGKILL');
  });

  it('offer tools that leave a trace of each effect', async () => {
    const effectFile = join(root, 'effects');
    const { process, host } = await ready({
      mode: 'tools',
      tools: [
        { name: 'note', effectFile },
        { name: 'stop', effectFile, outcome: 'crash' },
        { name: 'wait', outcome: 'hang' },
        { name: 'fail', outcome: 'fail' },
      ],
    });
    expect(json((await host.execute('note', { a: 1 })).output)).toEqual({ ok: true, args: { a: 1 } });
    expect(await host.execute('fail', {})).toMatchObject({ success: false, error: 'fail failed as told' });
    await expect(host.execute('wait', {}, {}, { timeoutMs: 200 })).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
    await expect(host.execute('stop', {}, { callId: 'c2' })).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect((await process.exited).signal).toBe('SIGKILL');
    const effects = readFileSync(effectFile, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(effects).toMatchObject([
      { tool: 'note', callId: 'c1', args: { a: 1 } },
      { tool: 'stop', callId: 'c2' },
    ]);
  });
});

it('nothing is left of a plugin that was disposed of', async () => {
  const { process } = await ready({ mode: 'handled' });
  const socket = (await process.handshake()).split('|')[3] ?? '';
  await process.dispose();
  await eventually(() => expect(existsSync(socket)).toBe(false));
});
