import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { host, plugin } from '@codedock/proto';
import pino from 'pino';
import { createPluginRoot, type PluginRoot } from '../../../test/plugin-folder.js';
import { startTestHost, type TestHost, until } from '../../../test/test-host.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;
if (!hasPython) process.stderr.write('skipped: NDJSON plugins in Python: there is no python3 on PATH\n');
const describeWithPython = hasPython ? describe : describe.skip;

let lines: string[];
let root: PluginRoot;
let running: TestHost;

beforeEach(() => {
  lines = [];
  root = createPluginRoot();
});

afterEach(async () => {
  await running.close();
  const left = execFileSync('ps', ['-eo', 'stat=,args='], { encoding: 'utf8' }).split('\n');
  expect(left.filter((line) => line.includes(root.path) && !line.startsWith('Z'))).toEqual([]);
  expect(privateFolders()).toEqual([]);
  root.remove();
});

async function start(variables: Record<string, string> = {}): Promise<void> {
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  running = await startTestHost(root.path, log, variables);
}

const ask = (content: string, more: Partial<plugin.Envelope> = {}, budgetMs = 0, port = 'agent/input') =>
  running.host.dispatch({
    port,
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
const input = (answer: object, more: object = {}) => ({
  stages: ['agent/input'],
  answers: { 'agent/input': answer },
  ...more,
});
const status = (name: string) => running.host.listPlugins().plugins.find((entry) => entry.name === name);
const outcomeOf = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).outcomes[0];
const logged = (text: string) =>
  until(
    () => lines.some((line) => line.includes(text)),
    () => lines.join(''),
  );

/** Private folders of the plugins of this process. */
const privateFolders = () =>
  readdirSync(tmpdir())
    .filter((name) => name.startsWith('cdph-'))
    .map((name) => join(tmpdir(), name))
    .filter((folder) => ownerOf(folder).startsWith(`${process.pid} `));

function ownerOf(folder: string): string {
  try {
    return readFileSync(join(folder, '.owner'), 'utf8');
  } catch {
    return '';
  }
}

/** Spool folders of all plugins that exist now. */
const spools = () => privateFolders().flatMap((folder) => readdirSync(folder).filter((entry) => /^s\d/.test(entry)));

describe('a plugin in POSIX shell', () => {
  it('answers gates, one line at a time', async () => {
    root.addScript(
      'policy',
      `#!/bin/sh
answer() { printf '{"id":%s,"result":%s}\\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\\([0-9]*\\),.*/\\1/p')
  case $line in
    *'"method":"handshake"'*) answer "$id" '{"sdk_version":"v1","plugin_name":"policy","pid":'$$'}' ;;
    *'"method":"plugin.start"'*)
      printf '{"id":1,"method":"stage.register","params":{"stage":"agent/input"}}\\n'
      read -r registered
      answer "$id" '{}' ;;
    *'"method":"plugin.init"'*) answer "$id" '{}' ;;
    *'"method":"plugin.stop"'*) answer "$id" '{}'; exit 0 ;;
    *'"method":"stage.invoke"'*rm\\ -rf*)
      answer "$id" '{"envelope":{"type":"input/blocked","reason":"no"}}' ;;
    *'"method":"stage.invoke"'*) answer "$id" '{"envelope":{}}' ;;
  esac
done
`,
      { transport: 'stdio' },
    );
    await start();
    await running.ready();
    expect((await ask('hello')).outcomes).toMatchObject([{ plugin: 'policy', outcome: 'continued' }]);
    const blocked = await ask('rm -rf /');
    expect(blocked.outcomes).toMatchObject([{ outcome: 'blocked', reason: 'no' }]);
    expect(blocked.envelope?.type).toBe('input/blocked');
  });
});

describeWithPython('the example', () => {
  it('denies, asks and lets pass', async () => {
    root.addExample('shell-policy');
    await start();
    await running.ready();
    const judge = async (name: string, command: string) => {
      const payload = Buffer.from(JSON.stringify({ call: { id: 'c1', name, arguments: { command } } }));
      const answer = await ask('', { payload }, 0, 'tools/pre-execute');
      return [answer.envelope?.type, answer.outcomes[0]?.outcome, answer.outcomes[0]?.reason];
    };
    expect(await judge('shell', 'ls -l')).toEqual(['', 'continued', '']);
    expect(await judge('other', 'rm -rf /')).toEqual(['', 'continued', '']);
    expect(await judge('shell', 'sudo rm -rf / ')).toEqual(['tools/denied', 'blocked', 'it would delete everything']);
    expect(await judge('shell', 'x'.repeat(81))).toEqual(['tools/ask', 'asked', 'the command has 81 characters']);
    expect((await judge('shell', 'ü'.repeat(600_000)))[2]).toBe('the command has 600000 characters');
    expect(await judge('shell', 7 as never)).toEqual(['', 'continued', '']);
  });
});

describeWithPython('plugins over NDJSON', () => {
  it('take part in the chain like any other', async () => {
    root.addNdjson('one', input({ append: '!', remember: { a: 1 } }));
    root.addFixture('two', { subscriptions: ['agent/input'], answers: { 'agent/input': { append: '?' } } });
    root.addNdjson('three', input({ append: '…' }));
    await start();
    await running.ready();
    const answer = await ask('zażółć 🎉 \n \u2028');
    expect(JSON.parse(String(answer.envelope?.payload))).toEqual({ content: 'zażółć 🎉 \n \u2028!…?' });
    expect(JSON.parse(String(answer.envelope?.context))).toEqual({ a: 1 });
    expect(answer.outcomes).toMatchObject([
      { plugin: 'one', outcome: 'changed', version: '7', generation: 1 },
      { plugin: 'three', outcome: 'changed' },
      { plugin: 'two', outcome: 'changed' },
    ]);
  });

  it('get every field of the envelope by name', async () => {
    const tell = [
      'type',
      'chain_id',
      'session_id',
      'turn_id',
      'seen',
      'budget_ms',
      'attempt',
      'principal',
      'capability',
    ];
    root.addNdjson('one', input({ tell: [...tell, 'payload', 'context', 'skip_result', 'run_id', 'reason'] }));
    await start();
    await running.ready();
    const told = await outcomeOf('x', {
      chainId: 'c1',
      turnId: 't1',
      attempt: 2,
      principal: Buffer.from('{"tenant":"acme"}'),
      context: Buffer.from('{\n"k": 1}'),
    });
    expect(JSON.parse(told?.reason ?? '')).toEqual({
      type: 'agent/input',
      chain_id: 'c1',
      session_id: 's1',
      run_id: '',
      turn_id: 't1',
      seen: [],
      budget_ms: expect.any(Number),
      attempt: 2,
      principal: { tenant: 'acme' },
      capability: 'cap-1',
      payload: { content: 'x' },
      context: { k: 1 },
      skip_result: null,
      reason: '',
    });
  });

  it.each<[string, object, object]>([
    ['a block', { type: 'input/blocked', reason: 'no' }, { outcome: 'blocked', reason: 'no' }],
    ['handled', { type: 'input/handled' }, { outcome: 'handled' }],
    ['an error', { error: 'it broke' }, { outcome: 'error', reason: 'it broke' }],
    ['an error as an object', { error: { code: 1, message: 'it broke' } }, { outcome: 'error', reason: 'it broke' }],
    ['a type of another port', { type: 'tools/denied' }, { outcome: 'invalid' }],
    ['a payload of a wrong type', { payload: [1] }, { outcome: 'invalid' }],
    [
      'a type that is no text',
      { reply: { type: 7 } },
      { outcome: 'invalid', reason: '"type" of the envelope is no text' },
    ],
    [
      'no envelope',
      { raw: '{"id":$ID,"result":{}}' },
      { outcome: 'invalid', reason: 'the result has no "envelope" object' },
    ],
    [
      'a decision under another name',
      { reply: { decision: 'deny' } },
      { outcome: 'invalid', reason: expect.stringContaining('unknown member "decision"') },
    ],
    [
      'a decision beside the envelope',
      { raw: '{"id":$ID,"result":{"envelope":{},"type":"input/blocked"}}' },
      { outcome: 'invalid', reason: expect.stringContaining('the result has the unknown member "type"') },
    ],
    [
      'a value under another name',
      { payload: { text: 'redacted' } },
      { outcome: 'invalid', reason: expect.stringContaining('none of the members of agent/input') },
    ],
    ['neither result nor error', { raw: '{"id":$ID}' }, { outcome: 'invalid' }],
    ['an end', { exit: 3 }, { outcome: 'crashed', reason: expect.stringContaining('exit code 3') }],
    [
      'a file outside of its folder',
      { reply: { payload: { $file: '../../../etc/passwd', bytes: 10 } } },
      { outcome: 'invalid', reason: expect.stringContaining('plain name') },
    ],
    [
      'a file that is not there',
      { reply: { payload: { $file: 'none', bytes: 10 } } },
      { outcome: 'invalid', reason: expect.stringContaining('ENOENT') },
    ],
    [
      'a file of another size',
      { leaves: true, reply: { payload: { $file: 'left', bytes: 99 } } },
      { outcome: 'invalid', reason: expect.stringContaining('no file of 99 bytes') },
    ],
    ['a value in a file', { payload: { content: 'from a file' }, file: true }, { outcome: 'changed' }],
  ])('decide with %s as over gRPC', async (_, answer, outcome) => {
    root.addNdjson('one', input(answer));
    await start();
    await running.ready();
    expect(await outcomeOf('x')).toMatchObject(outcome);
  });

  it('fail a rewrite port too where they registered it as closed', async () => {
    for (const [name, policy] of [
      ['open', 'open'],
      ['closed', 'closed'],
    ] as const)
      root.addNdjson(name, {
        start: [{ method: 'stage.register', params: { stage: 'agent/request', failure_policy: policy } }],
        answers: { 'agent/request': { error: 'it broke' } },
      });
    await start();
    await running.ready();
    const envelope = plugin.Envelope.fromPartial({ payload: Buffer.from('{"system_prompt":"x"}') });
    const request = { port: 'agent/request', envelope, minChainEpoch: 0, budgetMs: 0, toolName: '' };
    expect((await running.host.dispatch(request)).failure).toMatchObject({ plugin: 'closed' });
    await running.host.stopPlugin('closed');
    expect(await running.host.dispatch(request)).toMatchObject({
      failure: undefined,
      outcomes: [{ outcome: 'error' }],
    });
  });

  it('that do not answer in time are cancelled by the id of the request', async () => {
    root.addNdjson('one', input({ hang: true, leaves: true }), { timeoutMs: 200 });
    await start();
    await running.ready();
    expect(await outcomeOf('x')).toMatchObject({ outcome: 'timeout' });
    await logged('cancelled ');
    await until(() => spools().length === 0);
    expect(status('one')).toMatchObject({ state: 'ready', generation: 1 });
  });

  it('get and answer what is larger than a line through the spool folder', async () => {
    root.addNdjson('one', input({ append: '!' }));
    await start({ PLUGIN_RPC_TIMEOUT: '20s', PLUGIN_GATE_TIMEOUT: '20s' });
    await running.ready();
    const content = 'ü'.repeat(1_200_000);
    const answer = await ask(content);
    expect(answer.outcomes).toMatchObject([{ outcome: 'changed' }]);
    expect(JSON.parse(String(answer.envelope?.payload)).content).toBe(`${content}!`);
    await until(() => spools().length === 0);
  });

  it('that answer a line over 4 MiB fail by size, and go on', async () => {
    const raw = `{"id":$ID,"result":{"envelope":{"payload":{"content":"${'x'.repeat(200)}"}},"pad":"`;
    root.addNdjson('one', input({ append: '!' }, { tools: [{ name: 'big' }] }));
    root.addScript(
      'two',
      `#!/usr/bin/env python3
import json, sys
for text in sys.stdin:
    frame = json.loads(text)
    method, number = frame.get("method"), frame.get("id")
    if method == "handshake":
        result = {"sdk_version": "1.0.0", "plugin_name": "two"}
    elif method == "plugin.start":
        sys.stdout.write('{"id":1,"method":"stage.register","params":{"stage":"agent/input"}}\\n')
        result = {}
    elif method == "stage.invoke":
        big = "big" in json.dumps(frame["params"]["envelope"]["payload"])
        result = {"envelope": {"reason": "x" * (5 << 20 if big else 1)}}
    elif method is None:
        continue
    else:
        result = {}
    sys.stdout.write('{"id":%d,"result":%s}\\n' % (number, json.dumps(result)))
    sys.stdout.flush()
`,
      { transport: 'stdio' },
    );
    expect(raw.length).toBeGreaterThan(256);
    await start();
    await running.ready();
    expect((await ask('big')).outcomes.at(-1)).toMatchObject({ plugin: 'two', outcome: 'oversize' });
    expect((await ask('small')).outcomes.at(-1)).toMatchObject({ plugin: 'two', outcome: 'continued' });
  });

  it('that do not read their stdin count as hung, with a bounded queue', async () => {
    root.addNdjson('one', input({}, { readsNothing: true }), { timeoutMs: 100, maxInflight: 64 });
    await start({ PLUGIN_GATE_TIMEOUT: '3s' });
    await running.ready();
    const content = 'x'.repeat(900_000);
    const before = process.memoryUsage().rss;
    for (let round = 0; round < 4; round++) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(content)));
      for (const { outcomes } of answers) expect(['timeout', 'not ready']).toContain(outcomes[0]?.outcome);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(400 * 1024 * 1024);
    expect(spools()).toEqual([]);
  });

  it('execute tools', async () => {
    const schema = { type: 'object', properties: { q: { type: 'string' } } };
    const tools = [
      { name: 'find', prompt: 'finds', parameters_schema: schema, effect_class: 'pure', timeout_ms: 5_000 },
    ];
    root.addNdjson('one', { tools, execute: { file: true } });
    await start();
    await running.ready();
    expect(running.host.snapshot().tools).toMatchObject([
      { plugin: 'one', name: 'find', prompt: 'finds', effectClass: 'pure', timeoutMs: 5_000 },
    ]);
    const args = { $file: '../../secret', bytes: 3, q: 'z' };
    const answer = await execute({ arguments: Buffer.from(JSON.stringify(args)) });
    expect(answer).toMatchObject({ outcome: 'answered', result: { success: true } });
    expect(JSON.parse(String(answer.result?.output))).toEqual({ name: 'find', args, call: 'c1', key: 'k1' });
  });

  it('fail a tool with an error, and are cancelled in one', async () => {
    root.addNdjson('fails', { tools: [{ name: 'find' }], execute: { error: 'no such thing' } });
    root.addNdjson('hangs', { tools: [{ name: 'wait' }], execute: { hang: true } });
    await start();
    await running.ready();
    expect(await execute({})).toMatchObject({
      outcome: 'answered',
      result: { success: false, error: 'no such thing' },
    });
    const abort = new AbortController();
    const waiting = execute({ name: 'wait' }, abort.signal);
    await until(() => spools().length === 1);
    abort.abort();
    expect(await waiting).toMatchObject({ outcome: 'cancelled' });
    await logged('cancelled ');
    expect(spools()).toEqual([]);
  });

  it('have certainly executed nothing where a call could not be put down in their folder', async () => {
    root.addNdjson('one', { tools: [{ name: 'find' }], execute: {} });
    await start();
    await running.ready();
    const [folder = ''] = privateFolders();
    for (let id = 1; id <= 20; id++) mkdirSync(join(folder, `s${id}`));
    expect(await execute({ name: 'find' })).toMatchObject({
      outcome: 'not_sent',
      result: { success: false, error: expect.stringMatching(/^no spool folder could be made: EEXIST/) },
    });
  });

  it('leave nothing after a thousand cancelled calls', async () => {
    root.addNdjson('one', { tools: [{ name: 'wait' }], execute: { hang: true } }, { maxToolCalls: 50 });
    await start();
    await running.ready();
    for (let round = 0; round < 20; round++) {
      const aborts = Array.from({ length: 50 }, () => new AbortController());
      const calls = aborts.map(({ signal }) =>
        execute({ name: 'wait', arguments: Buffer.from(JSON.stringify({ $file: `${round}` })) }, signal),
      );
      await until(() => spools().length > 0);
      for (const abort of aborts) abort.abort();
      for (const { outcome } of await Promise.all(calls)) expect(outcome).toBe('cancelled');
    }
    await until(() => spools().length === 0);
    expect(status('one')).toMatchObject({ state: 'ready', generation: 1 });
  });

  it('leave no large result behind that they wrote before a cancel, nor one after it', async () => {
    root.addNdjson('one', { tools: [{ name: 'wait' }], execute: { hang: true, large: true } }, { maxToolCalls: 10 });
    await start();
    await running.ready();
    const said = (what: string) => lines.filter((line) => line.includes(`${what} `)).length;
    for (let round = 1; round <= 10; round++) {
      const aborts = Array.from({ length: 10 }, () => new AbortController());
      const calls = aborts.map(({ signal }) => execute({ name: 'wait' }, signal));
      await until(() => said('written') === round * 10);
      for (const abort of aborts) abort.abort();
      for (const { outcome } of await Promise.all(calls)) expect(outcome).toBe('cancelled');
      // By then it has tried to write, and answered, after the cancel.
      await until(() => said('cancelled') === round * 10);
    }
    await until(() => spools().length === 0);
    expect(status('one')).toMatchObject({ state: 'ready', generation: 1 });
  });

  it('that answer a request that never was, or one that is cancelled, change nothing for the next', async () => {
    const no = '"result":{"envelope":{"type":"input/blocked","reason":"not mine"}}}';
    root.addNdjson(
      'one',
      input({ append: '!', before: [`{"id":987654,${no}`], hangsFor: 'hang', late: `{"id":$ID,${no}` }),
      { timeoutMs: 2_000 },
    );
    await start({ PLUGIN_RPC_TIMEOUT: '5s', PLUGIN_GATE_TIMEOUT: '5s' });
    await running.ready();
    const changed = async (content: string) => {
      const { envelope, outcomes } = await ask(content);
      expect(outcomes).toMatchObject([{ outcome: 'changed', generation: 1 }]);
      expect(JSON.parse(String(envelope?.payload))).toEqual({ content: `${content}!` });
    };
    await changed('first');
    for (let round = 0; round < 2; round++) {
      expect(await outcomeOf('hang')).toMatchObject({ outcome: 'timeout' });
      await changed(`after ${round}`);
    }
    await until(() => lines.filter((line) => line.includes('cancelled ')).length === 2);
    await changed('last');
    await until(() => spools().length === 0);
    expect(status('one')).toMatchObject({ state: 'ready', generation: 1 });
  });

  it.each<[string, string, object, unknown]>([
    ['memory', 'memory.get', { scope: 'session', name: 'none' }, { error: 'NOT_FOUND: no such memory' }],
    ['memory of the session', 'memory.upsert', { name: 'k', text: 'v' }, { result: {} }],
    ['a completion', 'llm.complete', { prompt: 'p', text: 't' }, { result: { text: 'completed t' } }],
    ['models', 'llm.listSources', {}, { result: { models: ['fake'] } }],
    ['notices', 'io.appendNotice', { text: 'hello' }, { result: {} }],
    ['settings', 'settings.get', { key: 'none' }, { error: 'NOT_FOUND: no such setting' }],
    ['settings to be set', 'settings.set', { key: 'k', value: { a: [1] } }, { result: {} }],
    ['secrets', 'settings.getSecret', { key: 'k' }, { result: { value: 'secret of k' } }],
    ['secrets to be set', 'settings.setSecret', { key: 'k', value: 'v' }, { result: {} }],
    ['the plugins', 'plugin.listLoaded', {}, { result: { plugins: [{ name: 'one', state: 'ready', version: '7' }] } }],
    [
      'a session it was not asked about',
      'io.appendNotice',
      { session_id: 'other', text: 'x' },
      { error: expect.stringContaining('no call to this plugin is open for session other') },
    ],
    [
      'a field of a wrong type',
      'io.appendNotice',
      { text: 7 },
      { error: 'INVALID_ARGUMENT: io.appendNotice: "text" must be a text' },
    ],
    ['nothing it may', 'plugin.mgrStop', { name: 'one' }, { error: expect.stringContaining('capability "admin"') }],
    ['what is not offered', 'io.injectText', {}, { error: 'UNIMPLEMENTED: the method "io.injectText" is not offered' }],
    ['a stage too late', 'stage.register', { stage: 'llm/stream' }, { error: expect.stringContaining('plugin.start') }],
  ])('may ask for %s', async (_, method, params, outcome) => {
    root.addNdjson('one', input({ call: { method, params } }));
    await start();
    await running.ready();
    expect(JSON.parse((await outcomeOf('x'))?.reason ?? '')).toEqual(outcome);
    if (!method.startsWith('plugin.') && JSON.stringify(outcome).includes('result')) {
      expect(running.gateway.calls.at(-1)).toMatchObject({ plugin: 'one', capability: 'cap-1', background: false });
    }
  });

  it('subscribe to events at any time, and may call back while they handle one', async () => {
    root.addNdjson('one', {
      ...input({ call: { method: 'events.subscribe', params: { event: 'run.completed' } } }),
      events: ['run.started'],
      onEvent: { method: 'io.appendNotice', params: { text: 'seen' } },
    });
    await start();
    await running.ready();
    const notify = (type: string) =>
      running.host.notify({
        envelope: plugin.Envelope.fromPartial({ type, sessionId: 's9', runId: 'r9', capability: Buffer.from('cap-9') }),
      });
    expect(running.host.snapshot().events).toMatchObject([{ event: 'run.started', plugins: ['one'] }]);
    notify('run.started');
    await logged('event run.started');
    await until(() => running.gateway.calls.some(({ method }) => method === 'appendNotice'));
    expect(running.gateway.calls[0]).toMatchObject({ method: 'appendNotice', capability: 'cap-9' });
    await ask('x');
    expect(running.host.snapshot().events.map(({ event }) => event)).toEqual(['run.started', 'run.completed']);
    notify('run.completed');
    await logged('event run.completed');
  });

  it('answer events with durable delivery, and are told of none twice', async () => {
    root.addNdjson('one', { events: ['run.started'], refusesSeq: 5 }, { delivery: 'durable' });
    await start();
    const event = (eventSeq: number) =>
      plugin.Envelope.fromPartial({ type: 'run.started', sessionId: 's9', eventId: `e${eventSeq}`, eventSeq });
    const batch = (...seqs: number[]) =>
      host.EventBatch.fromPartial({ lease: 'l', sessionId: 's9', throughSeq: 9, events: seqs.map(event) });
    running.gateway.batches.push(batch(3, 4), batch(4, 5, 6));
    await running.ready();
    await until(() => running.gateway.settled.length === 2);
    expect(running.gateway.settled).toMatchObject([
      { sessionId: 's9', lease: 'l', deliveredSeq: 9, error: '', caller: { plugin: 'one' } },
      { deliveredSeq: 4, error: expect.stringContaining('not this one') },
    ]);
    expect(running.gateway.taken[0]).toMatchObject({ events: ['run.started'], caller: { plugin: 'one' } });
    // Callers do not hand over what it is given from the ledger.
    expect(running.host.snapshot().events).toEqual([]);
  });

  it('with the capability background call back for sessions outside of calls', async () => {
    root.addNdjson('one', {
      ...input({ call: { method: 'io.appendNotice', params: { session_id: 'elsewhere', text: 'x' } } }),
      handshake: { capabilities: ['background'] },
    });
    await start();
    await running.ready();
    expect(JSON.parse((await outcomeOf('x'))?.reason ?? '')).toEqual({ result: {} });
    expect(running.gateway.calls.at(-1)).toMatchObject({ method: 'appendNotice', background: true, capability: '' });
  });

  it('without the capability admin steer nobody, and it is recorded', async () => {
    root.addNdjson('one', input({ call: { method: 'plugin.mgrStop', params: { name: 'one' } } }));
    await start();
    await running.ready();
    expect(JSON.parse((await outcomeOf('x'))?.reason ?? '')).toMatchObject({
      error: expect.stringContaining('PERMISSION_DENIED: plugin.mgrStop needs the capability "admin"'),
    });
    await until(() => running.gateway.records.some(({ kind }) => kind === 'host_call_refused'));
    expect(status('one')).toMatchObject({ state: 'ready' });
  });

  it('with the capability admin steer other plugins', async () => {
    root.addNdjson('boss', {
      ...input({ call: { method: 'plugin.mgrStop', params: { name: 'other' } } }),
      handshake: { capabilities: ['admin'] },
    });
    root.addNdjson('other', { stages: ['agent/request'] });
    await start({ PLUGIN_RPC_TIMEOUT: '10s', PLUGIN_GATE_TIMEOUT: '10s' });
    await running.ready();
    expect(JSON.parse((await outcomeOf('x'))?.reason ?? '')).toEqual({ result: {} });
    expect(status('other')).toMatchObject({ state: 'stopped', reason: 'stopped by plugin boss' });
  });

  it('are reloaded without a failed call, and end when they are told to', async () => {
    root.addNdjson('one', input({ sleepMs: 5 }));
    await start();
    await running.ready();
    let failures = 0;
    let over = false;
    const load = (async () => {
      while (!over) if ((await outcomeOf('x'))?.outcome !== 'continued') failures++;
    })();
    for (let round = 0; round < 3; round++) await running.host.reloadPlugin('one');
    over = true;
    await load;
    expect(failures).toBe(0);
    expect(status('one')).toMatchObject({ state: 'ready', generation: 4 });
    await running.host.stopPlugin('one');
    expect(status('one')).toMatchObject({ state: 'stopped' });
  });

  it('that end by themselves start again, unless they said never', async () => {
    root.addNdjson('one', input({ exit: 1 }), { required: false });
    root.addNdjson('two', {
      ...input({ exit: 1 }),
      start: [{ method: 'lifecycle.autoRestart', params: { enabled: false } }],
    });
    await start();
    await running.ready();
    await until(() => status('one')?.state === 'ready');
    await ask('x');
    await until(
      () => status('one')?.generation === 2 && status('one')?.state === 'ready',
      () => JSON.stringify(status('one')),
    );
    await running.host.stopPlugin('one');
    await ask('x');
    await until(() => status('two')?.state === 'failed');
    expect(status('two')?.reason).toContain('not started again');
  });

  it.each<[string, object, RegExp]>([
    [
      'another major version',
      { handshake: { sdk_version: '2.1.0' } },
      /sdk_version is 2\.1\.0, this host speaks 1\.0\.0/,
    ],
    [
      'a version that is none',
      { handshake: { sdk_version: 'latest' } },
      /"latest" is no version, this host speaks 1\.0\.0/,
    ],
    ['no version', { handshake: { sdk_version: null } }, /"" is no version/],
    ['an unknown port', { stages: ['agent/output'] }, /there is no port "agent\/output"/],
  ])('are refused for %s', async (_, config, reason) => {
    root.addNdjson('one', config);
    await start();
    await until(() => status('one')?.state === 'failed');
    expect(status('one')?.reason).toMatch(reason);
  });

  it.each<[string, string, RegExp]>([
    ['ends first', '#!/bin/sh\necho why >&2\nexit 4\n', /ended \(exit code 4\) before it answered "handshake".*"why"/],
    ['is silent', '#!/bin/sh\nexec sleep 60\n', /did not answer "handshake" within the start time-out of 2000 ms/],
    [
      'prints text',
      '#!/bin/sh\necho loading\nexec sleep 60\n',
      /is no frame, it is not JSON: "loading"; stdout belongs/,
    ],
    ['closes stdout', '#!/bin/sh\nexec >&-\nexec sleep 60\n', /closed its stdin or stdout before it answered/],
    [
      'answers nothing',
      `#!/bin/sh\necho '{"id":1}'\nexec sleep 60\n`,
      /answer to "handshake" is invalid: the answer has/,
    ],
    [
      'answers an error',
      `#!/bin/sh\necho '{"id":1,"error":"no"}'\nexec sleep 60\n`,
      /answered "handshake" with the error: no/,
    ],
  ])('are refused when the program %s', async (_, text, reason) => {
    root.addScript('one', text, { transport: 'stdio' });
    await start({ PLUGIN_START_TIMEOUT: '2s' });
    await until(() => status('one')?.state === 'failed');
    expect(status('one')?.reason).toMatch(reason);
  });
});

function execute(input: Partial<plugin.MethodInput>, signal = new AbortController().signal) {
  return running.host.executeTool(
    {
      input: plugin.MethodInput.fromPartial({
        sessionId: 's1',
        runId: 'r1',
        callId: 'c1',
        name: 'find',
        idempotencyKey: 'k1',
        arguments: Buffer.from('{}'),
        ...input,
      }),
      timeoutMs: 0,
      minChainEpoch: 0,
    },
    signal,
  );
}
