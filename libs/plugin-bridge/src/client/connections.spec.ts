import type { ToolInvocation } from '@codedock/domain';
import { eventually } from '@codedock/testkit';
import {
  askContext,
  askInput,
  askTool,
  connected,
  hostWith,
  input,
  json,
  outcomes,
  readyWith,
  started,
  toolCall,
} from '../../test-support/connected-hosts.js';
import { GateHost, snapshotWith, toolAnswer, until } from '../../test-support/gate-host.js';
import { opened, principal } from '../../test-support/opened-call.js';
import { connectPluginHosts, type PluginHosts } from './connect.js';
import type { EpochStore } from './options.js';

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

describe('closed states', () => {
  it('no snapshot yet: every port counts as subscribed and fails', async () => {
    const host = await started(new GateHost(undefined));
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
    await until(() => bridge.readiness().ready, 'back');
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
      // Until the copy is loaded every port counts as closed.
      await eventually(async () => expect(await askContext(bridge)).toEqual({ kind: 'reply' }));
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
    const pluginHosts = ({ reachable }: { reachable: number }) => {
      reached = reachable;
    };
    const bridge = await readyWith([host], { metrics: { pluginHosts } });
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
