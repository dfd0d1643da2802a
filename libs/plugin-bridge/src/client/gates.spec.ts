import { createHook } from 'node:async_hooks';
import type { JsonObject, JsonValue } from '@codedock/domain';
import type { plugin } from '@codedock/proto';
import { within } from '@codedock/testkit';
import {
  askContext,
  askInput,
  askTool,
  hostWith,
  input,
  json,
  outcomes,
  readyWith,
  toolCall,
} from '../../test-support/connected-hosts.js';
import { answerTo, failing, snapshotWith, until } from '../../test-support/gate-host.js';
import { opened, principal } from '../../test-support/opened-call.js';
import { capabilitySigner, peekCapability } from '../capability.js';

describe('a gate that is asked', () => {
  it('carries who asks, budget, epoch, scratchpad, capability and token', async () => {
    const host = await hostWith({ 'agent/input': [{}] }, { chainEpoch: 7 });
    const bridge = await readyWith([host], { token: 'secret', signCapability: capabilitySigner('k'.repeat(32)) });
    const call = opened({ scratchpad: { seen: 1 }, site: { attempt: 2, turnId: 't1' } });
    await expect(askInput(bridge, call)).resolves.toEqual({ kind: 'continue' });
    const [request] = host.asked;
    const envelope = request?.envelope as plugin.Envelope;
    expect(request).toMatchObject({ port: 'agent/input', minChainEpoch: 7, toolName: '' });
    expect(request?.budgetMs).toBeGreaterThan(0);
    expect(request?.budgetMs).toBeLessThanOrEqual(10_000);
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

  it('makes no promise and sends nothing, however often', async () => {
    const host = await hostWith({ 'tools/pre-execute': [{ matchJson: '{"tenants":["other"],"tools":["rm*"]}' }] });
    const { beforeInput, beforeToolCall } = (await readyWith([host])).hooks();
    const call = opened();
    const resources: string[] = [];
    const watch = createHook({ init: (_, type) => void resources.push(type) }).enable();
    try {
      for (let round = 0; round < 1_000; round++) {
        beforeInput?.(input, call);
        beforeToolCall?.(toolCall, call);
      }
    } finally {
      watch.disable();
    }
    expect(resources).toEqual([]);
    expect(beforeInput?.(input, call)).toEqual({ kind: 'continue' });
    expect(beforeToolCall?.(toolCall, call)).toEqual({ kind: 'proceed' });
    expect(host.asked).toEqual([]);
    expect(call.records).toEqual([]);
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
    expect(host.asked[0]?.budgetMs).toBe(10_000);
    host.kill();
    await until(() => host.watching === 0, 'gone');
    for (let time = 0; time < 100; time++)
      expect(bridge.hooks().beforeInput?.(input, call)).toEqual({ kind: 'continue' });
    expect(call.records).toEqual([]);
    expect(bridge.ports()).toMatchObject([
      { port: 'agent/input', budgetMs: 10_000, subscribers: [{ plugin: 'watcher', shadow: true }] },
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
    const bridge = await readyWith([host], { gateTimeoutMs: 500 });
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
      'agent/input': [{ budgetMs: 20_000 }, { plugin: 'b', budgetMs: 25_000, matchJson: '{"tenants":["other"]}' }],
    });
    host.onDispatch = async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 600));
      return answerTo(request);
    };
    const bridge = await readyWith([host], { gateTimeoutMs: 500 });
    await expect(askInput(bridge)).resolves.toEqual({ kind: 'continue' });
    expect(host.asked[0]?.budgetMs).toBeGreaterThan(500);
    expect(host.asked[0]?.budgetMs).toBeLessThanOrEqual(20_000);
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
    const bridge = await readyWith([host], { gateTimeoutMs: 500 });
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
