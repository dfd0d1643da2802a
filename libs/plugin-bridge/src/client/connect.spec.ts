import type { JsonObject, JsonValue, ToolInvocation } from '@codedock/domain';
import type { GateDecision, InputEvent, ToolCallEvent } from '@codedock/hooks';
import type { plugin } from '@codedock/proto';
import { within } from '@codedock/testkit';
import { answerTo, failing, GateHost, snapshotWith, toolAnswer, until } from '../../test-support/gate-host.js';
import { type OpenedCall, opened, principal } from '../../test-support/opened-call.js';
import { capabilitySigner, peekCapability } from '../capability.js';
import { connectPluginHosts, type PluginHosts } from './connect.js';
import type { EpochStore, PluginHostsOptions } from './options.js';

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function hostWith(...snapshot: Parameters<typeof snapshotWith>): Promise<GateHost> {
  const host = await new GateHost(snapshotWith(...snapshot)).start();
  closing.push(() => host.kill());
  return host;
}

function connected(options: Partial<PluginHostsOptions> & { urls: readonly string[] }): PluginHosts {
  const hosts = connectPluginHosts({ gateTimeoutMs: 500, ...options });
  closing.push(() => hosts.close());
  return hosts;
}

async function readyWith(hosts: readonly GateHost[], options: Partial<PluginHostsOptions> = {}): Promise<PluginHosts> {
  const bridge = connected({ urls: hosts.map(({ url }) => url), ...options });
  await until(() => bridge.readiness().ready && hosts.every(({ watching }) => watching > 0), 'ready');
  return bridge;
}

const input: InputEvent = { content: 'hello' };
const toolCall: ToolCallEvent = {
  call: { id: 'c1', name: 'shell', arguments: { cmd: 'ls' } },
  tool: { requiresApproval: false, effect: 'effectful' },
};
const askInput = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(bridge.hooks().beforeInput?.(input, call) as GateDecision<'beforeInput'>);
const askTool = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(bridge.hooks().beforeToolCall?.(toolCall, call) as GateDecision<'beforeToolCall'>);
const askContext = (bridge: PluginHosts, call: OpenedCall = opened()) =>
  Promise.resolve(
    bridge.hooks().transformContext?.({ systemPrompt: 'p', messages: [] }, call) as GateDecision<'transformContext'>,
  );
const json = (value: JsonValue) => Buffer.from(JSON.stringify(value));
const outcomes = (call: OpenedCall) => call.records.map(({ hook, outcome }) => `${hook}:${outcome}`);

describe('without an address', () => {
  it('there are no hooks, and it is ready', () => {
    const bridge = connected({ urls: [] });
    expect(bridge.hooks()).toEqual({});
    expect(bridge.readiness()).toEqual({ ready: true, reason: '' });
    expect(bridge.tools(principal)).toEqual([]);
  });

  it('a bad address is refused with its name', () => {
    expect(() => connectPluginHosts({ urls: ['nonsense'] })).toThrow(/PLUGIN_HOST_URL/);
  });
});

describe('a gate that is asked', () => {
  it('carries who asks, budget, epoch, scratchpad, capability and token', async () => {
    const host = await hostWith({ 'agent/input': [{}] }, { chainEpoch: 7 });
    const bridge = await readyWith([host], { token: 'secret', signCapability: capabilitySigner('k'.repeat(32)) });
    const call = opened({ scratchpad: { seen: 1 }, site: { attempt: 2, turnId: 't1' } });
    await expect(askInput(bridge, call)).resolves.toEqual({ kind: 'continue' });
    const [request] = host.asked;
    const envelope = request?.envelope as plugin.Envelope;
    expect(request).toMatchObject({ port: 'agent/input', minChainEpoch: 7, toolName: '' });
    expect(request?.budgetMs).toBeGreaterThan(400);
    expect(request?.budgetMs).toBeLessThanOrEqual(500);
    expect(envelope).toMatchObject({
      type: 'agent/input',
      sessionId: 'session-1',
      runId: 'run-1',
      turnId: 't1',
      attempt: 2,
    });
    expect(JSON.parse(envelope.payload.toString())).toEqual(input);
    expect(JSON.parse(envelope.context.toString())).toEqual({ seen: 1 });
    expect(JSON.parse(envelope.principal.toString())).toEqual({
      tenant: 'acme',
      key: 'ci',
      agent: 'coder',
      metadata: {},
    });
    expect(peekCapability(envelope.capability)).toMatchObject({
      tenant: 'acme',
      session: 'session-1',
      run: 'run-1',
      subject: 'beforeInput',
    });
    expect(host.authorizations).toContain('Bearer secret');
  });

  it('records every plugin, merges the scratchpad and transforms', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    host.onDispatch = (request) =>
      answerTo(
        request,
        { payload: json({ content: 'bye' }), context: json({ a: 1 }) },
        {
          outcomes: [
            {
              plugin: 'redact',
              version: '1',
              policyVersion: 'p',
              generation: 3,
              outcome: 'changed',
              reason: '',
              startedMs: 1,
              durationMs: 2,
              queueMs: 0.5,
              checksum: '',
              configDigest: '',
              changed: true,
            },
          ],
        },
      );
    const call = opened();
    await expect(askInput(await readyWith([host]), call)).resolves.toEqual({ kind: 'transform', content: 'bye' });
    expect(call.records).toEqual([
      {
        gate: 'beforeInput',
        port: 'agent/input',
        hook: 'redact',
        version: '1',
        policyVersion: 'p',
        generation: 3,
        outcome: 'changed',
        startedMs: 1,
        durationMs: 2,
        queueMs: 0.5,
      },
    ]);
    expect(call.patches).toEqual([{ set: { a: 1 }, deleted: [] }]);
  });

  it.each([
    ['input/handled', 'handled', { kind: 'handled', by: 'policy' }],
    ['input/blocked', 'blocked', { kind: 'block', reason: 'no secrets', by: 'policy' }],
  ])('%s', async (type, outcome, decision) => {
    const host = await hostWith({ 'agent/input': [{}] });
    const told = { plugin: 'policy', outcome, reason: 'no secrets' };
    host.onDispatch = (request) => answerTo(request, { type, reason: 'no secrets' }, { outcomes: [told as never] });
    await expect(askInput(await readyWith([host]))).resolves.toEqual(decision);
  });

  it('tool calls: ask with all reasons, skip, abort, changed arguments', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{}] });
    const bridge = await readyWith([host]);
    const changed = json({ call: { id: 'c1', name: 'shell', arguments: { cmd: 'pwd' } } });
    const by = (outcome: string) => ({ outcomes: [{ plugin: 'policy', outcome } as never] });
    const answers: [Partial<plugin.Envelope>, object, object][] = [
      [{ payload: changed }, {}, { kind: 'proceed', arguments: { cmd: 'pwd' } }],
      [{ type: 'tools/denied' }, by('blocked'), { kind: 'block', reason: 'Refused by policy.', by: 'policy' }],
      [{ type: 'run/aborted', reason: 'stop' }, by('aborted'), { kind: 'abort', reason: 'stop', by: 'policy' }],
      [
        { type: 'tools/skipped', skipResult: json({ x: 1 }) },
        by('skipped'),
        { kind: 'skip', result: { x: 1 }, by: 'policy' },
      ],
      [
        { type: '', payload: changed },
        {
          askReasons: [
            { plugin: 'a', reason: 'r1' },
            { plugin: 'b', reason: 'r2' },
          ],
        },
        {
          kind: 'ask',
          reasons: [
            { by: 'a', reason: 'r1' },
            { by: 'b', reason: 'r2' },
          ],
          arguments: { cmd: 'pwd' },
        },
      ],
    ];
    for (const [envelope, more, decision] of answers) {
      host.onDispatch = (request) => answerTo(request, envelope, more);
      await expect(askTool(bridge)).resolves.toEqual(decision);
    }
    expect(host.asked[0]?.toolName).toBe('shell');
  });

  it('a plugin failure that its policy makes the gate’s names plugin, gate and limit', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    host.onDispatch = (request) =>
      answerTo(request, {}, { failure: { code: 'gate_timeout', plugin: 'slow', reason: 'no answer within 50 ms' } });
    await expect(askInput(await readyWith([host]))).resolves.toEqual({
      kind: 'could_not_ask',
      code: 'gate_timeout',
      by: 'slow',
      reason: 'The plugin slow could not be asked on agent/input: no answer within 50 ms',
    });
  });

  it('a provider’s body travels as text, both ways', async () => {
    const host = await hostWith({ 'llm/stream': [{}] });
    const raw = '{"seed":12345678901234567890,"t":1.0}';
    host.onDispatch = (request) =>
      answerTo(request, { payload: Buffer.from(`{"body": ${raw}, "headers":{"x-b":"1"}}`) });
    const bridge = await readyWith([host]);
    const sent = '{"2":1,"1":1.0}';
    const decision = await bridge
      .hooks()
      .beforeProviderRequest?.({ headers: { authorization: 'x', 'x-a': '1' }, body: sent }, opened());
    expect(host.asked[0]?.envelope?.payload.toString()).toBe(`{"headers":{"x-a":"1"},"body":${sent}}`);
    expect(decision).toEqual({ kind: 'reply', headers: { 'x-b': '1' }, body: raw });
  });

  it('provider call ids come back to messages a plugin changed', async () => {
    const host = await hostWith({ 'agent/request': [{}] });
    host.onDispatch = (request) => {
      const value = JSON.parse(request.envelope?.payload.toString() ?? '{}') as { messages: JsonObject[] };
      value.messages.push({ role: 'system', content: { text: 'note' } });
      (value.messages[0] as JsonObject)['content'] = { text: 'changed' };
      return answerTo(request, { payload: json(value as unknown as JsonValue) });
    };
    const bridge = await readyWith([host]);
    const kept = {
      id: 'm2',
      sessionId: 'session-1',
      role: 'user',
      content: { text: 'kept' },
      eventSeq: 2,
      createdAt: '2026-01-01T00:00:00.000Z',
    } as const;
    const changing = {
      ...kept,
      id: 'm1',
      role: 'assistant',
      toolCalls: [{ id: 'c', name: 'n', arguments: {}, providerCallId: 'prov' }],
    } as const;
    const decision = await bridge
      .hooks()
      .transformContext?.({ systemPrompt: 'p', messages: [changing, kept] }, opened());
    if (decision?.kind !== 'reply' || decision.messages === undefined) throw new Error('no messages');
    const [first, second, third] = decision.messages;
    expect(first).toEqual({ ...changing, runId: 'run-1', content: { text: 'changed' } });
    expect(second).toBe(kept);
    expect(third).toMatchObject({ role: 'system', sessionId: 'session-1', content: { text: 'note' } });
    expect(third?.id).not.toBe('');
  });
});

describe('a gate nobody is asked at', () => {
  it('answers synchronously, without a call', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{ matchJson: '{"tenants":["other"]}' }] });
    const { beforeInput, beforeToolCall, transformContext } = (await readyWith([host])).hooks();
    expect(beforeInput?.(input, opened())).toEqual({ kind: 'continue' });
    expect(beforeToolCall?.(toolCall, opened())).toEqual({ kind: 'proceed' });
    expect(transformContext?.({ systemPrompt: '', messages: [] }, opened())).toEqual({ kind: 'reply' });
    expect(host.asked).toHaveLength(0);
  });

  it('costs at most a few microseconds', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{ matchJson: '{"tenants":["other"],"tools":["rm*"]}' }] });
    const { beforeInput, beforeToolCall } = (await readyWith([host])).hooks();
    const call = opened();
    const microseconds = (ask: () => unknown) => {
      const rounds = 50_000;
      for (let round = 0; round < rounds; round++) ask();
      const started = process.hrtime.bigint();
      for (let round = 0; round < rounds; round++) ask();
      return Number(process.hrtime.bigint() - started) / 1_000 / rounds;
    };
    expect(microseconds(() => beforeInput?.(input, call))).toBeLessThan(2);
    expect(microseconds(() => beforeToolCall?.(toolCall, call))).toBeLessThan(2);
  });

  it('is asked as soon as a subscription appears, through the same hook', async () => {
    const host = await hostWith({});
    const bridge = await readyWith([host]);
    const hook = bridge.hooks().beforeInput;
    expect(hook?.(input, opened())).toEqual({ kind: 'continue' });
    host.show(snapshotWith({ 'agent/input': [{}] }));
    await until(() => bridge.ports().length === 1, 'subscribed');
    await hook?.(input, opened());
    expect(host.asked).toHaveLength(1);
  });
});

describe('plugins that only watch', () => {
  const watcher = { plugin: 'watcher', shadow: true, required: false, failurePolicy: 'closed' };

  it('are shown what happens at a port with nobody else, which costs and fails nothing', async () => {
    const host = await hostWith({ 'agent/input': [{ ...watcher, budgetMs: 30_000 }] });
    host.onDispatch = () => new Promise(() => undefined);
    const bridge = await readyWith([host]);
    const call = opened();
    expect(bridge.hooks().beforeInput?.(input, call)).toEqual({ kind: 'continue' });
    await until(() => host.asked.length === 1, 'shown');
    expect(JSON.parse(String(host.asked[0]?.envelope?.payload))).toEqual(input);
    expect(host.asked[0]?.budgetMs).toBe(500);
    host.kill();
    await until(() => host.watching === 0, 'gone');
    for (let time = 0; time < 100; time++)
      expect(bridge.hooks().beforeInput?.(input, call)).toEqual({ kind: 'continue' });
    expect(call.records).toEqual([]);
    expect(bridge.ports()).toMatchObject([
      { port: 'agent/input', budgetMs: 500, subscribers: [{ plugin: 'watcher', shadow: true }] },
    ]);
  });

  it('are not shown what they do not match, and more at once than 64', async () => {
    const host = await hostWith({ 'agent/input': [{ ...watcher, matchJson: '{"tenants":["others"]}' }] });
    host.onDispatch = () => new Promise(() => undefined);
    const bridge = await readyWith([host]);
    await askInput(bridge);
    host.show(snapshotWith({ 'agent/input': [watcher] }));
    await until(() => bridge.ports()[0]?.subscribers[0]?.match === '', 'changed');
    for (let time = 0; time < 100; time++) await askInput(bridge);
    await until(() => host.asked.length >= 64, 'shown');
    expect(host.asked).toHaveLength(64);
  });

  it('change nothing for a port where others are asked', async () => {
    const host = await hostWith({ 'agent/request': [{ plugin: 'redact' }, watcher] });
    host.onDispatch = () => {
      throw failing(13);
    };
    const bridge = await readyWith([host]);
    expect(bridge.ports()).toMatchObject([{ failurePolicy: 'open' }]);
    await expect(askContext(bridge)).resolves.toEqual({ kind: 'reply' });
  });
});

describe('a host that does not answer as it should', () => {
  it('hangs: the caller’s own timer ends the gate, the call is cancelled', async () => {
    const host = await hostWith({ 'agent/input': [{}], 'agent/request': [{}] });
    host.onDispatch = () => new Promise(() => undefined);
    const bridge = await readyWith([host]);
    const call = opened();
    // Two timers of one process keep their order on a busy machine too.
    const decision = await within(askInput(bridge, call), 600, 'the answer');
    expect(decision).toMatchObject({ kind: 'could_not_ask', code: 'gate_timeout' });
    expect(outcomes(call)).toEqual(['host:timeout']);
    await expect(askContext(bridge)).resolves.toEqual({ kind: 'reply' });
    await until(() => host.cancelled >= 2, 'cancelled');
  });

  it('takes the largest budget of the subscribers whose match holds', async () => {
    const host = await hostWith({
      'agent/input': [{ budgetMs: 800 }, { plugin: 'b', budgetMs: 20_000, matchJson: '{"tenants":["other"]}' }],
    });
    host.onDispatch = async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 600));
      return answerTo(request);
    };
    await expect(askInput(await readyWith([host]))).resolves.toEqual({ kind: 'continue' });
    expect(host.asked[0]?.budgetMs).toBeGreaterThan(700);
    expect(host.asked[0]?.budgetMs).toBeLessThanOrEqual(800);
  });

  it.each([
    ['another chain id', { chainId: 'other' }, 'invalid'],
    ['garbage', { payload: Buffer.from('{') }, 'invalid'],
    ['a foreign direction', { type: 'tools/denied' }, 'invalid'],
  ])('answers with %s', async (_, envelope, outcome) => {
    const host = await hostWith({ 'agent/input': [{}] });
    host.onDispatch = (request) => answerTo(request, envelope);
    const call = opened();
    await expect(askInput(await readyWith([host]), call)).resolves.toMatchObject({
      kind: 'could_not_ask',
      code: 'gate_unavailable',
    });
    expect(outcomes(call)).toEqual([`host:${outcome}`]);
    expect(call.patches).toEqual([]);
  });

  it('a rewrite gate keeps its value, unless a subscriber is closed', async () => {
    const host = await hostWith({ 'agent/request': [{}], 'tools/post-execute': [{ failurePolicy: 'closed' }] });
    host.onDispatch = () => {
      throw failing(13);
    };
    const bridge = await readyWith([host]);
    await expect(askContext(bridge)).resolves.toEqual({ kind: 'reply' });
    const event = { call: toolCall.call, result: { success: true, output: 1 }, n: 1 };
    await expect(bridge.hooks().afterToolCall?.(event, opened())).resolves.toMatchObject({ kind: 'could_not_ask' });
  });

  it('is killed in the middle of a call: asked once more, waited for within the budget, then could not ask', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    host.onDispatch = () => {
      host.kill();
      return new Promise(() => undefined);
    };
    const bridge = await readyWith([host]);
    await expect(askInput(bridge)).resolves.toMatchObject({
      kind: 'could_not_ask',
      code: expect.stringMatching(/^gate_/),
    });
  });

  it('an aborted signal cancels the call', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    host.onDispatch = () => new Promise(() => undefined);
    const abort = new AbortController();
    const asked = askInput(await readyWith([host], { gateTimeoutMs: 5_000 }), opened({ signal: abort.signal }));
    await until(() => host.asked.length === 1, 'asked');
    abort.abort();
    await expect(asked).resolves.toMatchObject({ kind: 'could_not_ask' });
    await until(() => host.cancelled >= 1, 'cancelled');
  });
});

describe('several replicas', () => {
  it('a port is subscribed if one of them says so, and that one is asked', async () => {
    const a = await hostWith({ 'agent/input': [{}] });
    const b = await hostWith({ 'tools/pre-execute': [{}] });
    const bridge = await readyWith([a, b]);
    await until(() => bridge.ports().length === 2, 'both');
    await askInput(bridge);
    await askTool(bridge);
    expect([a.asked.length, b.asked.length]).toEqual([1, 1]);
  });

  it('the one with fewer calls under way is asked', async () => {
    const hosts = [await hostWith({ 'agent/input': [{}] }), await hostWith({ 'agent/input': [{}] })];
    const bridge = await readyWith(hosts);
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    for (const host of hosts) {
      host.onDispatch = async (request) => {
        await held;
        return answerTo(request);
      };
    }
    const asked = [askInput(bridge), askInput(bridge), askInput(bridge), askInput(bridge)];
    await until(() => hosts.every((host) => host.asked.length === 2), 'shared evenly');
    free();
    await Promise.all(asked);
  });

  it('one whose required plugin is down is passed over', async () => {
    const down = await hostWith({ 'agent/input': [{ ready: false }] });
    const up = await hostWith({ 'agent/input': [{}] });
    const bridge = await readyWith([down, up]);
    for (let asks = 0; asks < 4; asks++) await askInput(bridge);
    expect([down.asked.length, up.asked.length]).toEqual([0, 4]);
  });

  it('one that lacks a plugin which another asks is passed over, until it is the only one', async () => {
    const before = await hostWith({ 'agent/input': [{ plugin: 'old' }] });
    const after = await hostWith({ 'agent/input': [{ plugin: 'old' }, { plugin: 'new' }] });
    const bridge = await readyWith([before, after]);
    await until(() => bridge.differences().length > 0, 'both known');
    expect(bridge.differences()).toEqual([
      {
        port: 'agent/input',
        plugin: 'new',
        replicas: [before, after]
          .map((host) => ({ replica: `ipv4:${host.url}`, ...(host === after ? { version: '1.0.0' } : {}) }))
          .sort((a, b) => (a.replica < b.replica ? -1 : 1)),
      },
    ]);
    const calls = Array.from({ length: 20 }, () => askInput(bridge));
    expect((await Promise.all(calls)).every(({ kind }) => kind === 'continue')).toBe(true);
    expect([before.asked.length, after.asked.length]).toEqual([0, 20]);
    // It is never waited for: a plugin that was taken out on the newer replicas would end every gate meanwhile.
    await after.kill();
    // What is asked before its end is noticed may break with it.
    let kind = '';
    for (let tries = 0; tries < 10 && kind !== 'continue'; tries++) kind = (await askInput(bridge)).kind;
    expect(kind).toBe('continue');
    expect(before.asked.length).toBeGreaterThan(0);
  });

  it('one that still starts a required plugin brings no port that only it has', async () => {
    const serving = await hostWith({ 'agent/input': [{}] });
    const starting = await hostWith(
      { 'agent/input': [{}], 'tools/pre-execute': [{}] },
      { ready: false, reason: 'starting', missingRequired: [{ plugin: 'new', reason: 'starting', matchJson: '' }] },
    );
    const bridge = await readyWith([serving, starting]);
    await until(() => bridge.differences().length > 0, 'both known');
    expect(bridge.ports().map(({ port }) => port)).toEqual(['agent/input']);
    expect((await askTool(bridge)).kind).toBe('proceed');
    starting.show(snapshotWith({ 'agent/input': [{}], 'tools/pre-execute': [{}] }));
    await until(() => bridge.ports().length === 2, 'it is up');
    expect((await askTool(bridge)).kind).toBe('proceed');
    expect([serving.asked.length, starting.asked.length]).toEqual([0, 1]);
  });

  it('a plugin that is new only for others makes no difference', async () => {
    const before = await hostWith({ 'agent/input': [{ plugin: 'old' }] });
    const after = await hostWith({
      'agent/input': [{ plugin: 'old' }, { plugin: 'new', matchJson: '{"tenants":["else"]}' }],
    });
    const bridge = await readyWith([before, after]);
    await until(() => bridge.differences().length > 0, 'both known');
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    for (const host of [before, after]) {
      host.onDispatch = async (request) => {
        await held;
        return answerTo(request);
      };
    }
    const calls = Array.from({ length: 4 }, () => askInput(bridge));
    await until(() => before.asked.length === 2 && after.asked.length === 2, 'shared evenly');
    free();
    await Promise.all(calls);
  });

  it('one below the epoch refuses and another is taken', async () => {
    const behind = await hostWith({ 'agent/input': [{}] });
    const ahead = await hostWith({ 'agent/input': [{}] });
    for (const host of [behind, ahead]) {
      host.onDispatch = (request) => {
        if (host === behind) throw failing(9, 'epoch');
        return answerTo(request);
      };
    }
    const bridge = await readyWith([behind, ahead]);
    await Promise.all([askInput(bridge), askInput(bridge), askInput(bridge)]).then((all) =>
      expect(all.every(({ kind }) => kind === 'continue')).toBe(true),
    );
    expect(ahead.asked).toHaveLength(3);
    ahead.show(snapshotWith({ 'agent/input': [{}] }, { chainEpoch: 5 }));
    await until(() => bridge.epoch() === 5, 'epoch');
    const before = behind.asked.length;
    await askInput(bridge);
    expect(ahead.asked[3]?.minChainEpoch).toBe(5);
    expect(behind.asked).toHaveLength(before);
  });

  it('an answer under an older epoch is refused', async () => {
    const host = await hostWith({ 'agent/input': [{}] }, { chainEpoch: 4 });
    host.onDispatch = (request) => answerTo(request, { payload: json({ content: 'late' }) }, { chainEpoch: 3 });
    const call = opened();
    await expect(askInput(await readyWith([host]), call)).resolves.toMatchObject({ kind: 'could_not_ask' });
    expect(outcomes(call)).toEqual(['host:not ready']);
  });

  it('an undelivered call is sent once more, to another one', async () => {
    const gone = await hostWith({ 'agent/input': [{}] });
    const stays = await hostWith({ 'agent/input': [{}] });
    gone.onDispatch = () => {
      throw failing(14, 'going down');
    };
    const bridge = await readyWith([gone, stays]);
    const all = await Promise.all([askInput(bridge), askInput(bridge)]);
    expect(all).toEqual([{ kind: 'continue' }, { kind: 'continue' }]);
    expect(stays.asked).toHaveLength(2);
  });

  it('a call that reached nobody, as the last one goes, is asked at the one that comes', async () => {
    const gone = await hostWith({ 'agent/input': [{}] });
    const { port } = gone;
    const bridge = await readyWith([gone], { gateTimeoutMs: 20_000 });
    gone.kill();
    const asking = askInput(bridge);
    const next = await new GateHost(snapshotWith({ 'agent/input': [{}] })).start(port);
    closing.push(() => next.kill());
    await expect(asking).resolves.toEqual({ kind: 'continue' });
    expect(next.asked).toHaveLength(1);
  });

  it('names are resolved again: new addresses join, gone ones leave', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    let ips: readonly string[] = [];
    const bridge = connected({
      urls: [`hosts.test:${host.port}`],
      resolve: async () => ips,
      resolveEveryMs: 20,
    });
    await expect(askInput(bridge)).resolves.toMatchObject({ kind: 'could_not_ask' });
    ips = ['127.0.0.1'];
    await until(() => bridge.readiness().ready, 'joined');
    await expect(askInput(bridge)).resolves.toEqual({ kind: 'continue' });
    ips = ['127.0.0.2'];
    await until(() => host.watching === 0, 'left');
  });

  it('a gate that reached nobody is asked when the host is back, within its budget', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    const { port } = host;
    const bridge = await readyWith([host], { gateTimeoutMs: 20_000 });
    host.kill();
    const call = opened();
    let over = false;
    const asked = askInput(bridge, call).finally(() => {
      over = true;
    });
    await new Promise(setImmediate);
    expect(over).toBe(false);
    await host.start(port);
    await expect(asked).resolves.toEqual({ kind: 'continue' });
    expect(outcomes(call)).toEqual([]);
    expect(host.asked).toHaveLength(1);
  });

  it('a gate that waits for a host whose address is given up is asked at another that comes to serve it', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    const other = await hostWith({ 'tools/pre-execute': [{}] });
    let ips: readonly string[] = ['127.0.0.1'];
    let resolved = 0;
    const bridge = connected({
      urls: [`hosts.test:${host.port}`, other.url],
      resolve: async () => {
        resolved += 1;
        return ips;
      },
      resolveEveryMs: 20,
      gateTimeoutMs: 20_000,
    });
    await until(() => bridge.ports().length === 2, 'both');
    host.kill();
    const call = opened();
    const asked = askInput(bridge, call);
    ips = ['127.0.0.2'];
    await until(() => bridge.ports().length === 1, 'given up');
    // Long enough for the gate to find that nobody serves it.
    const before = resolved;
    await until(() => resolved > before + 5, 'resolved again');
    other.show(snapshotWith({ 'agent/input': [{}] }));
    await expect(asked).resolves.toEqual({ kind: 'continue' });
    expect(outcomes(call)).toEqual([]);
    expect(other.asked).toHaveLength(1);
  });
});

describe('closed states', () => {
  it('no snapshot yet: every port counts as subscribed and fails', async () => {
    const host = await new GateHost(undefined).start();
    closing.push(() => host.kill());
    const bridge = connected({ urls: [host.url] });
    const call = opened();
    await expect(askInput(bridge, call)).resolves.toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable' });
    expect(outcomes(call)).toEqual(['host:not ready']);
    await expect(askContext(bridge)).resolves.toMatchObject({ kind: 'could_not_ask' });
    expect(bridge.readiness()).toMatchObject({ ready: false });
    expect(host.asked).toHaveLength(0);
  });

  it('a required plugin that never came up fails the calls for which its match holds', async () => {
    const missing = { plugin: 'guard', reason: 'exits 1', matchJson: '{"tenants":["acme"]}' };
    const host = await hostWith({ 'agent/input': [{}] }, { missingRequired: [missing], ready: false });
    const bridge = connected({ urls: [host.url] });
    await until(() => bridge.ports().some(({ subscribers }) => subscribers.length > 0), 'snapshot');
    await expect(askInput(bridge)).resolves.toMatchObject({
      kind: 'could_not_ask',
      by: 'guard',
      code: 'gate_unavailable',
    });
    await expect(askTool(bridge)).resolves.toMatchObject({ kind: 'could_not_ask', by: 'guard' });
    const other = opened({ principal: { ...principal, tenant: 'other' } });
    await expect(askInput(bridge, other)).resolves.toEqual({ kind: 'continue' });
    host.show(
      snapshotWith({ 'agent/input': [{}] }, { missingRequired: [{ ...missing, matchJson: '' }], ready: false }),
    );
    await until(() => !bridge.readiness().ready, 'not ready');
    expect(bridge.readiness().reason).toContain('guard');
  });

  it('a broken watch: the last snapshot serves for a while, then every gate is could-not-ask', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{}], 'llm/stream': [{ failurePolicy: 'closed' }] });
    const bridge = await readyWith([host], { snapshotServesMs: 300 });
    const changes: boolean[] = [];
    bridge.onReadyChange(({ ready }) => changes.push(ready));
    const { port } = host;
    host.kill();
    expect(await askInput(bridge)).toEqual({ kind: 'continue' });
    await until(() => !bridge.readiness().ready, 'expired');
    await expect(askInput(bridge)).resolves.toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable' });
    await expect(askContext(bridge)).resolves.toEqual({ kind: 'reply' });
    const provider = bridge.hooks().beforeProviderRequest?.({ headers: {}, body: '{}' }, opened());
    await expect(provider).resolves.toMatchObject({ kind: 'could_not_ask' });
    await host.start(port);
    await until(() => bridge.readiness().ready, 'back', 5_000);
    await expect(askTool(bridge)).resolves.toEqual({ kind: 'proceed' });
    expect(changes).toEqual([false, true]);
  });

  it('a draining host’s last words do not open or close anything at once', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{}] });
    const bridge = await readyWith([host], { snapshotServesMs: 5_000 });
    host.show(snapshotWith({}, { ready: false, reason: 'draining' }));
    host.endWatches();
    await until(() => host.watching > 0, 'watching again');
    expect(bridge.ports().map(({ port }) => port)).toEqual(['tools/pre-execute']);
    expect(bridge.hooks().beforeInput?.(input, opened())).toEqual({ kind: 'continue' });
  });

  describe('with a copy of the chain in the database', () => {
    const copyOf = (epoch: number, port: string, failurePolicy: string, match = '') => ({
      epoch,
      snapshot: { ports: [{ port, subscribers: [{ plugin: 'redact', failurePolicy, match }] }] },
    });
    const storeWith = (copy: Awaited<ReturnType<EpochStore['load']>>, saved: unknown[] = []): EpochStore => ({
      load: async () => copy,
      save: async (epoch, snapshot) => {
        saved.push({ epoch, snapshot });
      },
    });

    it('a host without plugins keeps ports of the same epoch closed, and opens under a newer one', async () => {
      const host = await hostWith({}, { chainEpoch: 3 });
      const bridge = connected({
        urls: [host.url],
        epochStore: storeWith(copyOf(3, 'agent/input', 'closed', '{"tenants":["acme"]}')),
      });
      await until(() => bridge.readiness().reason.includes('epoch 3'), 'noticed');
      await expect(askInput(bridge)).resolves.toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable' });
      expect(bridge.hooks().beforeInput?.(input, opened({ principal: { ...principal, tenant: 'other' } }))).toEqual({
        kind: 'continue',
      });
      expect(bridge.hooks().beforeToolCall?.(toolCall, opened())).toEqual({ kind: 'proceed' });
      host.show(snapshotWith({}, { chainEpoch: 4 }));
      await until(() => bridge.readiness().ready, 'open');
      expect(bridge.hooks().beforeInput?.(input, opened())).toEqual({ kind: 'continue' });
    });

    it('a host that knows plugins and lists none was told to: its ports are open', async () => {
      const host = await hostWith({}, { chainEpoch: 4, plugins: 1 });
      const bridge = await readyWith([host], { epochStore: storeWith(copyOf(4, 'agent/input', 'closed')) });
      await expect(askInput(bridge)).resolves.toEqual({ kind: 'continue' });
    });

    it('after a restart a rewrite gate keeps its value only if the copy shows nobody closed', async () => {
      const bridge = connected({ urls: ['127.0.0.1:1'], epochStore: storeWith(copyOf(3, 'llm/stream', 'closed')) });
      await until(() => true, 'loaded');
      await new Promise((resolve) => setImmediate(resolve));
      await expect(askContext(bridge)).resolves.toEqual({ kind: 'reply' });
      const provider = bridge.hooks().beforeProviderRequest?.({ headers: {}, body: '{}' }, opened());
      await expect(provider).resolves.toMatchObject({ kind: 'could_not_ask' });
    });

    it('stores what it sees, once, and not a chain that lacks a required plugin', async () => {
      const saved: { epoch: number }[] = [];
      const host = await hostWith({ 'agent/input': [{ failurePolicy: 'closed' }] }, { chainEpoch: 2 });
      const bridge = await readyWith([host], { epochStore: storeWith(undefined, saved) });
      host.show(snapshotWith({ 'agent/input': [{ failurePolicy: 'closed' }] }, { chainEpoch: 2 }));
      const missing = { plugin: 'x', reason: '', matchJson: '' };
      host.show(snapshotWith({}, { chainEpoch: 6, missingRequired: [missing], ready: false }));
      await until(() => bridge.epoch() === 6, 'seen');
      expect(saved).toEqual([
        {
          epoch: 2,
          snapshot: {
            ports: [{ port: 'agent/input', subscribers: [{ plugin: 'policy', failurePolicy: 'closed', match: '' }] }],
          },
        },
      ]);
    });
  });
});

describe('notifications', () => {
  const events = [
    { event: 'turn.started', plugins: ['audit'] },
    { event: 'run.blocked', plugins: ['audit'] },
    { event: 'assistant.delta', plugins: ['audit'] },
    { event: 'assistant.completed', plugins: ['audit'] },
  ];
  const turn = (iteration: number) => ({
    runId: 'run-1',
    sessionId: 'session-1',
    turnId: 't',
    iteration,
    resumed: false,
  });

  it('go out by ledger event name, in order per run, only where subscribed', async () => {
    const host = await hostWith({}, { events });
    host.onNotify = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
    const bridge = await readyWith([host]);
    const hooks = bridge.hooks();
    hooks.onRunStart?.({ runId: 'run-1', sessionId: 'session-1' }, opened());
    for (let iteration = 1; iteration <= 20; iteration++) hooks.onTurnStart?.(turn(iteration), opened());
    hooks.onRunEnd?.(
      { runId: 'run-1', sessionId: 'session-1', status: 'blocked', stopReason: 'blocked_by_hook', metadata: {} },
      opened(),
    );
    bridge.notify({ type: 'assistant.delta', payload: { text: 'x' }, site: opened().site, principal });
    bridge.notify({ type: 'turn.started', payload: { iteration: 21 }, site: opened().site, principal });
    bridge.notify({ type: 'assistant.completed', payload: { finishReason: 'stop' }, site: opened().site, principal });
    await until(() => host.notified.length === 23, 'all sent');
    const iterations = host.notified
      .slice(0, 20)
      .map(({ payload }) => (JSON.parse(payload.toString()) as { iteration: number }).iteration);
    expect(iterations).toEqual([...Array(20).keys()].map((at) => at + 1));
    expect(host.notified.slice(20).map(({ type }) => type)).toEqual([
      'run.blocked',
      'turn.started',
      'assistant.completed',
    ]);
  });

  it('never block or throw when the host hangs; what is over the queue is counted', async () => {
    const host = await hostWith({}, { events });
    host.onNotify = () => new Promise(() => undefined);
    const dropped: string[] = [];
    const bridge = await readyWith([host], { metrics: { notificationDropped: (event) => dropped.push(event) } });
    for (let iteration = 1; iteration <= 1_010; iteration++)
      expect(bridge.hooks().onTurnStart?.(turn(iteration), opened())).toBeUndefined();
    expect(dropped.length).toBeGreaterThanOrEqual(9);
  });
});

describe('tools', () => {
  const tool = {
    plugin: 'policy',
    name: 'deploy',
    prompt: 'Deploys.',
    parametersSchema: json({ type: 'object', properties: { to: { type: 'string' } } }),
    requiresApproval: true,
    effectClass: 'effectful',
    timeoutMs: 300,
    capabilities: [],
    matchJson: '{"tenants":["acme"]}',
    live: true,
  };
  const invocationOf = (bridge: PluginHosts): ToolInvocation => {
    const [definition] = bridge.tools(principal);
    if (definition === undefined) throw new Error('no tool');
    return {
      tool: definition,
      callId: 'c1',
      arguments: { to: 'prod' },
      n: 2,
      idempotencyKey: 'c1',
      tenantId: 'acme',
      sessionId: 'session-1',
      runId: 'run-1',
      turnId: 't1',
      principal,
    };
  };
  const run = (bridge: PluginHosts, signal = new AbortController().signal) =>
    bridge.executeTool(invocationOf(bridge), signal);

  it('are offered where their match holds', async () => {
    const bridge = await readyWith([
      await hostWith({}, { tools: [tool, { ...tool, name: 'broken', parametersSchema: Buffer.from('{') }] }),
    ]);
    expect(bridge.tools(principal)).toEqual([
      {
        name: 'deploy',
        description: 'Deploys.',
        parameters: { type: 'object', properties: { to: { type: 'string' } } },
        requiresApproval: true,
        effect: 'effectful',
        timeoutMs: 300,
        schemaDigest: expect.stringMatching(/^[0-9a-f]{64}$/),
        plugin: 'policy',
      },
    ]);
    expect(bridge.tools({ ...principal, tenant: 'other' })).toEqual([]);
  });

  it.each([
    ['answered', { kind: 'result', source: 'tool', result: { success: true, output: { ok: true } } }],
    ['not_sent', { kind: 'result', source: 'host', result: { success: false, output: null } }],
    ['died', { kind: 'unknown' }],
    ['timeout', { kind: 'unknown' }],
    ['cancelled', { kind: 'unknown' }],
    ['whatever', { kind: 'unknown' }],
  ])('the outcome %s', async (outcome, expected) => {
    const host = await hostWith({}, { tools: [tool] });
    host.onTool = () => toolAnswer(outcome);
    await expect(run(await readyWith([host]))).resolves.toMatchObject(expected);
    expect(host.executed[0]?.input).toMatchObject({
      callId: 'c1',
      name: 'deploy',
      idempotencyKey: 'c1',
      attempt: 2,
      turnId: 't1',
    });
    expect(host.executed).toHaveLength(1);
  });

  it('output that is no JSON is text; what is neither, or hostile, is a failed result', async () => {
    const host = await hostWith({}, { tools: [tool] });
    const bridge = await readyWith([host]);
    const outputs: [Buffer, object][] = [
      [Buffer.from('plain'), { success: true, output: 'plain' }],
      [Buffer.alloc(0), { success: true, output: null }],
      [Buffer.from([0xff]), { success: false }],
      [Buffer.from('{"__proto__":1}'), { success: false }],
    ];
    for (const [output, result] of outputs) {
      host.onTool = () => toolAnswer('answered', { output });
      await expect(run(bridge)).resolves.toMatchObject({ kind: 'result', source: 'tool', result });
    }
    host.onTool = () => toolAnswer('answered', { success: false, error: 'disk full' });
    await expect(run(bridge)).resolves.toMatchObject({ result: { success: false, error: 'disk full' } });
  });

  it('a host killed after the call was sent leaves the effect unknown, and nobody else is asked', async () => {
    const [first, second] = [await hostWith({}, { tools: [tool] }), await hostWith({}, { tools: [tool] })];
    for (const host of [first, second]) {
      host.onTool = () => {
        host.kill();
        return new Promise(() => undefined);
      };
    }
    await expect(run(await readyWith([first, second]))).resolves.toMatchObject({ kind: 'unknown' });
    expect(first.executed.length + second.executed.length).toBe(1);
  });

  it('a host that cannot be reached at all was certainly not sent the call', async () => {
    const host = await hostWith({}, { tools: [tool] });
    let reached = 1;
    const replicas = ({ watching }: { watching: number }) => {
      reached = watching;
    };
    const bridge = await readyWith([host], { metrics: { replicas } });
    const invocation = invocationOf(bridge);
    host.kill();
    await until(() => reached === 0, 'lost');
    const execution = await bridge.executeTool(invocation, new AbortController().signal);
    expect(execution).toMatchObject({ kind: 'result', source: 'host', result: { success: false } });
  });

  it('cancelling reaches the host and is unknown', async () => {
    const host = await hostWith({}, { tools: [tool] });
    host.onTool = () => new Promise(() => undefined);
    const abort = new AbortController();
    const running = run(await readyWith([host]), abort.signal);
    await until(() => host.executed.length === 1, 'sent');
    abort.abort();
    await expect(running).resolves.toMatchObject({ kind: 'unknown' });
    await until(() => host.cancelled >= 1, 'cancelled');
  });
});

describe('the gate version', () => {
  it('changes with the policies that would be asked for the call, and with nothing else', async () => {
    const ports = (policyVersion: string, otherVersion: string) => ({
      'tools/pre-execute': [
        { policyVersion },
        { plugin: 'other', policyVersion: otherVersion, matchJson: '{"tools":["rm"]}' },
      ],
    });
    const host = await hostWith(ports('1', '1'));
    const bridge = await readyWith([host]);
    const version = () => bridge.gateVersionOf('shell', principal);
    const first = version();
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(bridge.gateVersionOf('rm', principal)).not.toBe(first);
    host.show(snapshotWith(ports('1', '2')));
    const other = bridge.gateVersionOf('rm', principal);
    await until(() => bridge.gateVersionOf('rm', principal) !== other, 'other changed');
    expect(version()).toBe(first);
    host.show(snapshotWith(ports('2', '2')));
    await until(() => version() !== first, 'changed');
    host.show(snapshotWith(ports('1', '2')));
    await until(() => version() === first, 'back');
  });
});

describe('administration', () => {
  it('goes to all replicas and tells each answer', async () => {
    const hosts = [await hostWith({}), await hostWith({})];
    const bridge = await readyWith(hosts);
    expect(await bridge.plugins.list()).toEqual(hosts.map(() => expect.objectContaining({ ok: true, value: [] })));
    expect(await bridge.plugins.reload('x')).toEqual(
      hosts.map(() => expect.objectContaining({ ok: true, value: expect.objectContaining({ name: 'x' }) })),
    );
    expect(await bridge.plugins.stop('x')).toEqual(hosts.map(() => expect.objectContaining({ ok: false, code: 5 })));
    expect(await bridge.plugins.refresh()).toEqual(hosts.map(() => expect.objectContaining({ ok: true })));
  });
});
