import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plugin } from '@codedock/proto';
import { within } from '@codedock/testkit';
import pino from 'pino';
import { createPluginRoot, type PluginRoot } from '../test/plugin-folder.js';
import { startTestHost, type TestHost, until } from '../test/test-host.js';

const log = pino({ level: 'silent' });
let root: PluginRoot;
let running: TestHost;

beforeEach(() => {
  root = createPluginRoot();
});

afterEach(async () => {
  await running.close();
  expect(processesOf(root.path)).toEqual([]);
  expect(socketFolders()).toEqual([]);
  expect(zombies()).toEqual([]);
  root.remove();
});

/** Command lines of processes that run something from a folder. */
function processesOf(folder: string): string[] {
  return execFileSync('ps', ['-eo', 'stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(folder) && !line.startsWith('Z'));
}

/** Children of this process that have ended and were not waited for. */
function zombies(): string[] {
  return execFileSync('ps', ['-o', 'stat=,pid=,comm=', '--ppid', String(process.pid)], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.startsWith('Z'));
}

/** Folders for sockets that this process has made and not removed. */
function socketFolders(): string[] {
  return readdirSync(tmpdir()).filter((name) => {
    const owner = join(tmpdir(), name, '.owner');
    return name.startsWith('cdph-') && existsSync(owner) && readFileSync(owner, 'utf8').startsWith(`${process.pid} `);
  });
}

async function start(variables: Record<string, string> = {}): Promise<void> {
  running = await startTestHost(root.path, log, variables);
}

const ask = (content: string, more: Partial<plugin.Envelope> = {}, budgetMs = 0) =>
  running.host.dispatch({
    port: 'agent/input',
    envelope: plugin.Envelope.fromPartial({
      sessionId: 's1',
      capability: Buffer.from('cap-1'),
      payload: Buffer.from(JSON.stringify({ content })),
      ...more,
    }),
    minChainEpoch: 0,
    budgetMs,
    toolName: '',
  });
const status = (name: string) => running.host.listPlugins().plugins.find((entry) => entry.name === name);
const input = (answer: object) => ({ subscriptions: ['agent/input'], answers: { 'agent/input': answer } });

describe('plugins that behave', () => {
  it('are asked in order over mutual TLS', async () => {
    root.addFixture('one', input({ append: '!', remember: { a: 1 } }));
    root.addFixture('two', input({ append: '?' }), { autoMtls: false });
    await start();
    await running.ready();
    expect(socketFolders()).toHaveLength(2);
    for (const name of socketFolders()) {
      expect(statSync(join(tmpdir(), name)).mode & 0o777).toBe(0o700);
      expect(readdirSync(join(tmpdir(), name))).toContain('b1');
    }
    expect(processesOf(root.path)).toHaveLength(2);
    const answer = await ask('hello');
    expect(JSON.parse(String(answer.envelope?.payload))).toEqual({ content: 'hello!?' });
    expect(JSON.parse(String(answer.envelope?.context))).toEqual({ a: 1 });
    expect(
      answer.outcomes.map(({ plugin: name, outcome, generation, version }) => [name, outcome, generation, version]),
    ).toEqual([
      ['one', 'changed', 1, '1.2.3'],
      ['two', 'changed', 1, '1.2.3'],
    ]);
    expect(running.host.snapshot()).toMatchObject({
      ready: true,
      chainEpoch: 1,
      ports: [
        {
          port: 'agent/input',
          strictestFailurePolicy: 'closed',
          budgetMs: 2_000,
          subscribers: [{ plugin: 'one', state: 'ready' }, { plugin: 'two' }],
        },
      ],
    });
  });

  it('call back with the capability of their call in flight', async () => {
    root.addFixture(
      'memo',
      input({ call: { method: 'memoryUpsert', key: { name: 'k' }, request: { text: 'v' } } }),
      {},
    );
    root.addFixture('reads', input({ call: { method: 'memoryGet', request: { name: 'k' } } }));
    root.addFixture('asks-secret', input({ call: { method: 'getSecret', request: { key: 'k' } } }));
    await start();
    await running.ready();
    const answer = await ask('x');
    const replies = Object.fromEntries(answer.outcomes.map(({ plugin: name, reason }) => [name, JSON.parse(reason)]));
    expect(replies['reads']).toEqual({ reply: { text: 'v' } });
    expect(replies['asks-secret']).toEqual({ reply: { value: 'secret of k' } });
    expect(running.gateway.calls.find(({ method }) => method === 'memoryGet')).toEqual({
      method: 'memoryGet',
      plugin: 'reads',
      capability: 'cap-1',
      background: false,
      token: 'Bearer a-token-of-this-test-with-32-characters',
    });
  });

  it.each(['RegisterCommand', 'RegisterFlag', 'SendUserMessage', 'AppendEntry', 'EventsEmit'])(
    'are told that %s is not offered',
    async (method) => {
      root.addFixture('curious', input({ call: { method, request: {} } }));
      await start();
      await running.ready();
      expect(JSON.parse((await ask('x')).outcomes[0]?.reason ?? '')).toMatchObject({ code: 12 });
    },
  );

  it('are refused a call-back without a call in flight for the session, and it is recorded', async () => {
    root.addFixture('nosy', input({ call: { method: 'appendNotice', request: { sessionId: 'other', text: 'hi' } } }));
    await start();
    await running.ready();
    const answer = await ask('x');
    expect(JSON.parse(answer.outcomes[0]?.reason ?? '')).toMatchObject({
      code: 7,
      error: expect.stringContaining('no call to this plugin is open for session other'),
    });
    await until(() => running.gateway.records.some(({ kind }) => kind === 'host_call_refused'));
    expect(running.gateway.calls).toEqual([]);
  });

  it('register tools, which are executed; the earlier plugin keeps a name', async () => {
    root.addFixture('b-tools', { tools: [{ name: 'lookup', effectClass: 'pure' }] });
    root.addFixture('a-tools', { tools: [{ name: 'lookup', prompt: 'mine', timeoutMs: 5_000 }] });
    await start();
    await until(() => running.host.snapshot().tools.length > 0);
    await until(() => running.host.snapshot().tools[0]?.plugin === 'a-tools');
    const answer = await running.host.executeTool(
      {
        input: plugin.MethodInput.fromPartial({ name: 'lookup', arguments: Buffer.from('{"q":1}') }),
        timeoutMs: 0,
        minChainEpoch: 0,
      },
      new AbortController().signal,
    );
    expect(answer).toMatchObject({ outcome: 'answered', plugin: 'a-tools', result: { success: true } });
    expect(JSON.parse(String(answer.result?.output))).toEqual({ name: 'lookup', arguments: { q: 1 } });
    const unknown = await running.host.executeTool(
      { input: plugin.MethodInput.fromPartial({ name: 'nothing' }), timeoutMs: 0, minChainEpoch: 0 },
      new AbortController().signal,
    );
    expect(unknown).toMatchObject({ outcome: 'not_sent' });
  });

  it('get ledger events and events of others', async () => {
    root.addFixture('emits', {
      subscriptions: ['run.started'],
      answers: { 'run.started': { call: { method: 'emit', request: { type: 'scan.found' } } } },
    });
    root.addFixture('listens', {
      subscriptions: ['scan.found'],
      answers: { 'scan.found': { call: { method: 'appendNotice', request: { text: 'seen' } } } },
    });
    await start();
    await running.ready();
    running.host.notify({
      envelope: plugin.Envelope.fromPartial({
        type: 'run.started',
        sessionId: 's',
        runId: 'r',
        capability: Buffer.from('c'),
      }),
    });
    await until(() =>
      running.gateway.records.some(({ kind, caller }) => kind === 'host_call_refused' && caller?.plugin === 'listens'),
    );
    expect(running.host.snapshot().events).toEqual(
      expect.arrayContaining([{ event: 'scan.found', plugins: ['listens'] }]),
    );
  });
});

describe('plugins that misbehave', () => {
  it('hang: the gate fails in time and names the plugin', async () => {
    root.addFixture('hangs', input({ hang: true }));
    await start();
    await running.ready();
    // Two timers of one process keep their order on a busy machine too.
    const answer = await within(ask('x', {}, 600), 600, 'the answer');
    expect(answer.failure).toMatchObject({ code: 'gate_timeout', plugin: 'hangs' });
  });

  it('hang, five of them at one gate: it still ends in its time', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      root.addFixture(name, {
        subscriptions: ['agent/request', 'agent/input'],
        answers: { 'agent/request': { hang: true }, 'agent/input': { hang: true } },
      });
    }
    await start();
    await running.ready();
    for (const port of ['agent/request', 'agent/input']) {
      const startedAt = performance.now();
      const asked = running.host.dispatch({
        port,
        envelope: plugin.Envelope.fromPartial({ payload: Buffer.from('{"content":"x","system_prompt":"x"}') }),
        minChainEpoch: 0,
        budgetMs: 2_000,
        toolName: '',
      });
      // Two timers of one process keep their order on a busy machine too.
      const answer = await within(asked, 2_000, 'the answer');
      // Nor is it given up early.
      expect(performance.now() - startedAt).toBeGreaterThan(1_850);
      expect(answer.failure === undefined).toBe(port === 'agent/request');
    }
  });

  it('are slow to start: all of them start side by side', async () => {
    for (const name of ['a', 'b', 'c', 'd']) root.addFixture(name, { bootstrap: { hang: true } }, { required: false });
    await start();
    await until(() => processesOf(root.path).length === 4);
    expect(running.host.listPlugins().plugins.map(({ state }) => state)).toEqual(Array(4).fill('starting'));
  });

  it('write to stdout without end: it is read and kept nowhere, and they go on', async () => {
    const write =
      "const { writeSync } = require('node:fs'); const mib = Buffer.alloc(1 << 20, 'x'); for (let n = 0; n < 16; n++) for (let at = 0; at < mib.length; ) at += writeSync(1, mib, at); return 'written'";
    root.addFixture('floods', input({ run: write }), { timeoutMs: 20_000 });
    await start();
    await running.ready();
    const answer = await ask('x', {}, 30_000);
    expect(answer.outcomes).toMatchObject([{ outcome: 'continued', reason: 'written' }]);
  });

  it('get a deadline beyond the time of this host, so that what they say of theirs never comes first', async () => {
    root.addFixture('late', input({ deadline: true }), { timeoutMs: 5_000 });
    await start();
    await running.ready();
    // Of many, since a busy machine may take its time between making a call and sending it.
    const left: number[] = [];
    for (let n = 0; n < 20; n++) left.push(Number((await ask('x', {}, 30_000)).outcomes[0]?.reason));
    expect(Math.max(...left)).toBeGreaterThan(5_000);
  });

  it('open their breaker after five time-outs, then are not asked', async () => {
    root.addFixture('hangs', input({ hang: true }), { timeoutMs: 50 });
    await start();
    await running.ready();
    for (let time = 0; time < 5; time++) await ask('x');
    const answer = await ask('x');
    expect(answer.failure).toMatchObject({
      code: 'gate_unavailable',
      reason: expect.stringContaining('5 time-outs in a row'),
    });
  });

  it('crash in a call: it fails at once with the exit and the last words, and the plugin comes back', async () => {
    root.addFixture('crashes', input({ log: 'last words', exit: 3 }));
    // As long as the test may take: what ends the call is the death of the plugin, no time-out.
    await start({ PLUGIN_RPC_TIMEOUT: '30s', PLUGIN_GATE_TIMEOUT: '30s' });
    await running.ready();
    const answer = await ask('x');
    expect(answer.outcomes[0]).toMatchObject({
      outcome: 'crashed',
      reason: expect.stringMatching(/exit code 3.*last words/),
    });
    const down = await ask('x');
    expect(down.failure).toMatchObject({ code: 'gate_unavailable', plugin: 'crashes' });
    expect(down.outcomes[0]?.outcome).toBe('not ready');
    await until(() => status('crashes')?.generation === 2 && status('crashes')?.state === 'ready');
    await until(() => running.gateway.records.some(({ kind }) => kind === 'crashed'));
  });

  it('lose the broker stream: the process is of no use any more and is replaced', async () => {
    root.addFixture('drops', input({ dropBroker: true }));
    await start();
    await running.ready();
    await ask('x');
    await until(() => status('drops')?.generation === 2 && status('drops')?.state === 'ready');
  });

  it('are asked more at once than they have slots: the rest waits, and that counts', async () => {
    root.addFixture('slow', input({ sleepMs: 100 }));
    await start();
    await running.ready();
    const answers = await Promise.all(Array.from({ length: 12 }, () => ask('x')));
    const waited = answers.flatMap(({ outcomes }) => outcomes).filter(({ queueMs }) => queueMs > 0);
    expect(answers.every(({ failure }) => failure === undefined)).toBe(true);
    expect(waited).toHaveLength(4);
  });

  it('throw: that is an error of the handler, told without secrets, and the process lives', async () => {
    root.addFixture('throws', input({ throws: 'cannot read https://me:hunter2@policy.example/' }));
    await start();
    await running.ready();
    const pid = status('throws')?.pid;
    expect((await ask('x')).outcomes[0]).toMatchObject({
      outcome: 'error',
      reason: 'cannot read https://me:[redacted]@policy.example/',
    });
    expect(status('throws')?.pid).toBe(pid);
  });

  it('ignore or lack Shutdown, or spin: they are killed with everything they started', async () => {
    root.addFixture('lacks', { grandchild: root.path, shutdown: { lacks: true } });
    root.addFixture('ignores', { grandchild: root.path, shutdown: { ignore: true } });
    root.addFixture('spins', { ...input({ spin: true }), grandchild: root.path });
    await start();
    await running.ready();
    expect((await ask('x', {}, 300)).failure).toMatchObject({ code: 'gate_timeout', plugin: 'spins' });
    expect(processesOf(root.path).length).toBeGreaterThanOrEqual(6);
    await running.host.drain(0);
    expect(processesOf(root.path)).toEqual([]);
  });

  it('die while executing a tool: the effect is unknown', async () => {
    root.addFixture('dies', { tools: [{ name: 'lookup' }], execute: { exit: 1 } });
    await start();
    await running.ready();
    const answer = await running.host.executeTool(
      { input: plugin.MethodInput.fromPartial({ name: 'lookup' }), timeoutMs: 0, minChainEpoch: 0 },
      new AbortController().signal,
    );
    expect(answer).toMatchObject({
      outcome: 'died',
      result: { success: false, error: expect.stringContaining('exit code 1') },
    });
  });

  it('hang in a tool: cancelled and timed out are told apart', async () => {
    root.addFixture('hangs', { tools: [{ name: 'lookup' }], execute: { hang: true } });
    await start();
    await running.ready();
    const request = { input: plugin.MethodInput.fromPartial({ name: 'lookup' }), timeoutMs: 100, minChainEpoch: 0 };
    expect(await running.host.executeTool(request, new AbortController().signal)).toMatchObject({ outcome: 'timeout' });
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 20);
    expect(await running.host.executeTool({ ...request, timeoutMs: 10_000 }, abort.signal)).toMatchObject({
      outcome: 'cancelled',
    });
  });
});

describe('what administrators do', () => {
  it('reload fails no call, and keeps the old generation when the new one does not come up', async () => {
    root.addFixture('one', input({ append: '1', sleepMs: 20 }));
    await start();
    await running.ready();
    let ended = false;
    const failures: unknown[] = [];
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!ended) {
          const answer = await ask('x');
          if (answer.failure !== undefined) failures.push(answer.failure);
        }
      }),
    );
    root.addFixture('one', input({ append: '2', sleepMs: 20 }));
    expect(await running.host.reloadPlugin('one')).toMatchObject({ generation: 2, state: 'ready' });
    expect(JSON.parse(String((await ask('x')).envelope?.payload))).toEqual({ content: 'x2' });
    root.addFixture('one', { noHealth: true });
    await expect(running.host.reloadPlugin('one')).rejects.toThrow(/health service/);
    expect(status('one')).toMatchObject({ generation: 2, state: 'ready' });
    ended = true;
    await load;
    expect(failures).toEqual([]);
  });

  it('reload again and again while calls hang: few processes of the past are left', async () => {
    root.addFixture('one', { tools: [{ name: 'lookup' }], execute: { hang: true } }, { maxToolCalls: 8 });
    await start();
    await running.ready();
    const hanging: Promise<unknown>[] = [];
    const counts: number[] = [];
    for (let n = 0; n < 4; n++) {
      const input = plugin.MethodInput.fromPartial({ name: 'lookup' });
      hanging.push(
        running.host.executeTool({ input, timeoutMs: 6_000, minChainEpoch: 0 }, new AbortController().signal),
      );
      await running.host.reloadPlugin('one');
      counts.push(processesOf(root.path).length);
    }
    expect(Math.max(...counts)).toBeLessThanOrEqual(3);
    await Promise.all(hanging);
  });

  it('see no tools of a plugin that has ended for good, while its gates fail', async () => {
    root.addFixture('ends', { ...input({ exit: 1 }), tools: [{ name: 'lookup' }] }, { restart: { policy: 'never' } });
    await start();
    await running.ready();
    expect(running.host.snapshot().tools).toMatchObject([{ plugin: 'ends' }]);
    await ask('x');
    await until(() => status('ends')?.state === 'failed');
    expect(running.host.snapshot().tools).toEqual([]);
    expect((await ask('x')).failure).toMatchObject({ code: 'gate_unavailable', plugin: 'ends' });
    await running.host.startPlugin('ends');
    expect(running.host.snapshot().tools).toMatchObject([{ plugin: 'ends' }]);
  });

  it('reload takes in a plugin whose folder is new, at its place, once it answers', async () => {
    root.addFixture('b', input({ append: 'b' }));
    await start();
    await running.ready();
    await expect(running.host.reloadPlugin('a')).rejects.toThrow('there is no plugin "a" on this host');
    root.addFixture('a', { noHealth: true });
    await expect(running.host.reloadPlugin('a')).rejects.toThrow(/plugin a did not come up: .*health service/);
    expect(running.host.snapshot()).toMatchObject({ ready: true, plugins: 1 });
    root.addFixture('a', input({ append: 'a' }));
    const both = await Promise.all([running.host.reloadPlugin('a'), running.host.reloadPlugin('a')]);
    expect(both).toMatchObject([{ state: 'ready' }, { state: 'ready' }]);
    expect(JSON.parse(String((await ask('')).envelope?.payload))).toEqual({ content: 'ab' });
  });

  it('see what one plugin is asked, and nothing of other tenants', async () => {
    root.addFixture('one', input({ type: 'input/blocked', reason: 'no' }));
    await start();
    await running.ready();
    expect(() => running.host.recordQuestions({ plugin: 'none', tenant: 't' })).toThrow('there is no plugin "none"');
    const lines: string[] = [];
    const seen = running.host.recordQuestions({ plugin: 'one', tenant: 't' }).subscribe(({ json }) => lines.push(json));
    await ask('theirs', { principal: Buffer.from('{"tenant":"other"}') });
    await ask('mine', { principal: Buffer.from('{"tenant":"t"}') });
    seen.unsubscribe();
    await ask('later', { principal: Buffer.from('{"tenant":"t"}') });
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      {
        question: { type: 'agent/input', payload: { content: 'mine' }, session_id: 's1' },
        answer: { type: 'input/blocked', reason: 'no' },
      },
    ]);
    expect(lines.join()).not.toContain('cap-1');
  });

  it('stop takes a plugin out, start brings it back', async () => {
    root.addFixture('one', input({ type: 'input/blocked', reason: 'no' }));
    await start();
    await running.ready();
    expect((await ask('x')).envelope?.type).toBe('input/blocked');
    expect(await running.host.stopPlugin('one')).toMatchObject({ state: 'stopped', pid: 0 });
    expect(await ask('x')).toMatchObject({ outcomes: [], failure: undefined });
    expect(running.host.snapshot()).toMatchObject({ ready: true, ports: [] });
    expect(await running.host.startPlugin('one')).toMatchObject({ state: 'ready' });
    expect((await ask('x')).envelope?.type).toBe('input/blocked');
  });

  it('disable on the gateway stops it on this replica, enable starts it', async () => {
    root.addFixture('one', input({ append: '!' }));
    await start();
    await running.ready();
    Object.assign(running.gateway.desired, { chainEpoch: 2, disabled: ['one'] });
    expect(await running.host.refresh()).toEqual({ chainEpoch: 2, disabled: ['one'] });
    await until(() => status('one')?.state === 'disabled');
    expect((await ask('x')).outcomes).toEqual([]);
    await expect(running.host.startPlugin('one')).rejects.toThrow(/disabled; enable it first/);
    Object.assign(running.gateway.desired, { chainEpoch: 3, disabled: [] });
    await running.host.refresh();
    await until(() => status('one')?.state === 'ready');
  });
});

describe('readiness', () => {
  it('waits for required plugins: every port fails until they were up once', async () => {
    root.addScript('broken', '#!/bin/sh\necho "no library" >&2\nexit 7\n');
    root.addFixture('fine', input({ append: '!' }));
    await start();
    await until(() => status('broken')?.state === 'failed' && status('fine')?.state === 'ready');
    const snapshot = running.host.snapshot();
    expect(snapshot).toMatchObject({
      ready: false,
      missingRequired: [{ plugin: 'broken', reason: expect.stringMatching(/exit code 7.*no library/) }],
    });
    expect((await ask('x')).failure).toMatchObject({ code: 'gate_unavailable', plugin: 'broken' });
  });

  it('does not wait for others', async () => {
    root.addScript('broken', '#!/bin/sh\nexit 7\n', { required: false });
    root.addScript('odd', 'text', { required: false });
    root.addFixture('fine', input({ append: '!' }));
    await start();
    await running.ready();
    expect((await ask('x')).failure).toBeUndefined();
    expect(status('odd')).toMatchObject({ state: 'failed', reason: expect.stringContaining('refused') });
  });

  it('refuses callers that know a newer epoch, before any plugin is asked', async () => {
    root.addFixture('one', input({ exit: 1 }));
    await start();
    await running.ready();
    const request = {
      port: 'agent/input',
      envelope: plugin.Envelope.fromPartial({}),
      minChainEpoch: 2,
      budgetMs: 0,
      toolName: '',
    };
    await expect(running.host.dispatch(request)).rejects.toThrow(/at chain epoch 1, the caller asks for 2/);
    expect(status('one')?.state).toBe('ready');
  });
});
