import { compileMatch } from '@codedock/plugin-bridge';
import { type gate, type Port, plugin } from '@codedock/proto';
import type { AskResult } from '../session/plugin-session.js';
import { runGateChain } from './gate-chain.js';
import type { GateEndpoint, MissingPlugin } from './gate-endpoint.js';

type Answer = Partial<plugin.Envelope> | Extract<AskResult, { kind: 'failed' }> | 'hang';

const nothing = Buffer.alloc(0);
const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const read = (bytes: Uint8Array | undefined) => JSON.parse(String(bytes));
const failed = (outcome: Extract<AskResult, { kind: 'failed' }>['outcome']): Answer => ({
  kind: 'failed',
  outcome,
  reason: `it was ${outcome}`,
  queueMs: 0,
});

/** An endpoint that answers from a function of what it was sent, or lets its whole time pass. */
function endpoint(
  name: string,
  answer: (sent: plugin.Envelope) => Answer,
  more: Partial<GateEndpoint> = {},
): GateEndpoint & { sent: plugin.Envelope[] } {
  const sent: plugin.Envelope[] = [];
  return {
    plugin: name,
    failurePolicy: 'open',
    timeoutMs: 2_000,
    maxPayloadBytes: 1_000_000,
    identity: { version: '1', policyVersion: 'p', checksum: 'c', configDigest: 'd', generation: 3 },
    sent,
    async ask(envelope, timeoutMs) {
      sent.push(envelope);
      const given = answer(envelope);
      if (given === 'hang') {
        await new Promise((resolve) => setTimeout(resolve, timeoutMs));
        return { kind: 'failed', outcome: 'timeout', reason: 'no answer', queueMs: 0 };
      }
      if ('kind' in given) return given;
      return { kind: 'answered', reply: { ...envelope, ...given } as plugin.Envelope, queueMs: 0 };
    },
    ...more,
  };
}

/** What a plugin in shadow mode decided after the chain was over. */
function lateShadow() {
  let onLateShadow: (outcome: gate.Outcome) => void = () => undefined;
  const late = new Promise<gate.Outcome>((resolve) => {
    onLateShadow = resolve;
  });
  return { late, onLateShadow };
}

const appends = (text: string) => (sent: plugin.Envelope) => ({
  payload: json({ ...read(sent.payload), content: read(sent.payload).content + text }),
});
const continues = () => ({});

const call = { call: { id: 'c1', name: 'shell', arguments: { a: 1 } } };
const payloads: Record<Port, unknown> = {
  'agent/input': { content: 'x' },
  'agent/pre-step': { system_prompt: 'x' },
  'agent/request': { system_prompt: 'x', messages: [] },
  'llm/stream': { headers: {}, body: {} },
  'tools/pre-execute': call,
  'tools/post-execute': { ...call, result: { CallID: 'c1', Name: 'shell', Output: 'out', Success: true, Error: '' } },
};

interface Asked {
  readonly budgetMs?: number;
  readonly context?: unknown;
  readonly missing?: readonly MissingPlugin[];
  readonly signal?: AbortSignal;
  readonly envelope?: Partial<plugin.Envelope>;
  readonly toolName?: string;
  readonly onLateShadow?: (outcome: gate.Outcome) => void;
}

const run = (port: Port, endpoints: GateEndpoint[], more: Asked = {}) =>
  runGateChain(
    {
      port,
      envelope: plugin.Envelope.fromPartial({
        chainId: 'chain',
        sessionId: 's',
        runId: 'r',
        payload: json(payloads[port]),
        context: json(more.context ?? {}),
        capability: Buffer.from('cap'),
        ...more.envelope,
      }),
      budgetMs: more.budgetMs ?? 2_000,
      chainEpoch: 7,
      signal: more.signal,
      ...(more.toolName === undefined ? {} : { toolName: more.toolName }),
      ...(more.onLateShadow === undefined ? {} : { onLateShadow: more.onLateShadow }),
    },
    endpoints,
    more.missing ?? [],
  );

const outcomes = (answer: { outcomes: { plugin: string; outcome: string }[] }) =>
  answer.outcomes.map(({ plugin: name, outcome }) => `${name} ${outcome}`);

describe('a chain of plugins', () => {
  it('shows each the value and scratchpad of the one before, and who was asked', async () => {
    const a = endpoint('a', (sent) => ({ ...appends('1')(sent), context: json({ k: 1 }) }));
    const b = endpoint('b', continues);
    const c = endpoint('c', (sent) => ({ ...appends('2')(sent), context: json({ ...read(sent.context), l: 2 }) }));
    const answer = await run('agent/input', [a, b, c], { context: { first: true } });
    expect(read(answer.envelope?.payload)).toEqual({ content: 'x12' });
    expect(read(answer.envelope?.context)).toEqual({ k: 1, l: 2 });
    expect(outcomes(answer)).toEqual(['a changed', 'b continued', 'c changed']);
    expect(answer).toMatchObject({ changed: true, chainEpoch: 7, failure: undefined, askReasons: [] });
    expect(answer.outcomes[0]).toMatchObject({
      version: '1',
      policyVersion: 'p',
      checksum: 'c',
      configDigest: 'd',
      generation: 3,
      changed: true,
    });
    expect(c.sent[0]).toMatchObject({
      type: 'agent/input',
      chainId: 'chain',
      seen: ['a', 'b'],
      sessionId: 's',
      runId: 'r',
      capability: Buffer.from('cap'),
    });
    expect(c.sent[0]?.budgetMs).toBeGreaterThan(1_800);
  });

  it('sends the very bytes on when nothing was changed, and none of them back', async () => {
    const a = endpoint('a', (sent) => ({ payload: Buffer.from(` ${sent.payload} `) }));
    const b = endpoint('b', continues);
    const answer = await run('agent/input', [a, b], { context: { first: true } });
    expect(b.sent[0]?.payload).toEqual(json({ content: 'x' }));
    expect(answer.envelope).toMatchObject({ payload: nothing, context: nothing });
    expect(answer.changed).toBe(false);
  });

  it.each<[Port, string, string]>([
    ['agent/input', 'input/handled', 'handled'],
    ['agent/input', 'input/blocked', 'blocked'],
    ['agent/pre-step', 'run/blocked', 'blocked'],
    ['tools/pre-execute', 'tools/denied', 'blocked'],
    ['tools/pre-execute', 'tools/skipped', 'skipped'],
    ['tools/pre-execute', 'run/aborted', 'aborted'],
  ])('on %s ends at %s and drops changes', async (port, type, outcome) => {
    const changer = port === 'agent/input' ? [endpoint('first', appends('1'))] : [];
    const last = endpoint('last', continues);
    const answer = await run(port, [...changer, endpoint('no', () => ({ type, reason: 'because' })), last]);
    expect(answer.envelope).toMatchObject({ type, reason: 'because', payload: nothing });
    expect(outcomes(answer).at(-1)).toBe(`no ${outcome}`);
    expect(last.sent).toEqual([]);
    expect(answer).toMatchObject({ changed: false, failure: undefined });
  });

  it('carries what to store instead of executing', async () => {
    const answer = await run('tools/pre-execute', [
      endpoint('a', () => ({ type: 'tools/skipped', skipResult: json({ cached: 1 }) })),
    ]);
    expect(read(answer.envelope?.skipResult)).toEqual({ cached: 1 });
  });

  it('remembers every ask, keeps changed arguments and goes on', async () => {
    const changed = { call: { ...call.call, arguments: { a: 2 } } };
    const answer = await run('tools/pre-execute', [
      endpoint('a', () => ({ type: 'tools/ask', reason: 'prod', payload: json(changed) })),
      endpoint('b', continues),
      endpoint('c', () => ({ type: 'tools/ask', reason: 'night' })),
    ]);
    expect(answer.askReasons).toEqual([
      { plugin: 'a', reason: 'prod' },
      { plugin: 'c', reason: 'night' },
    ]);
    expect(answer.envelope).toMatchObject({ type: 'tools/ask', reason: 'prod; night' });
    expect(read(answer.envelope?.payload)).toEqual(changed);
  });

  it('lets a later no win over an ask', async () => {
    const answer = await run('tools/pre-execute', [
      endpoint('a', () => ({ type: 'tools/ask', reason: 'prod' })),
      endpoint('b', () => ({ type: 'tools/denied', reason: 'no' })),
    ]);
    expect(answer).toMatchObject({ askReasons: [], envelope: { type: 'tools/denied', reason: 'no' } });
  });
});

describe('a plugin that fails', () => {
  it.each(['timeout', 'crashed', 'error', 'unreachable', 'not ready', 'oversize'] as const)(
    'ends a veto port: %s',
    async (outcome) => {
      const last = endpoint('last', continues);
      const answer = await run('agent/input', [
        endpoint('first', appends('1')),
        endpoint('bad', () => failed(outcome)),
        last,
      ]);
      expect(answer.failure).toEqual({
        code: outcome === 'timeout' ? 'gate_timeout' : 'gate_unavailable',
        plugin: 'bad',
        reason: `it was ${outcome}`,
      });
      expect(outcomes(answer)).toEqual(['first changed', `bad ${outcome}`]);
      expect(answer.envelope?.payload).toEqual(nothing);
      expect(last.sent).toEqual([]);
    },
  );

  it('is left out on a rewrite port, where what others changed stays', async () => {
    const changes = (sent: plugin.Envelope) => ({
      payload: json({ ...read(sent.payload), system_prompt: `${read(sent.payload).system_prompt}!` }),
    });
    const answer = await run('agent/request', [
      endpoint('a', changes),
      endpoint('bad', () => failed('error')),
      endpoint('c', changes),
    ]);
    expect(read(answer.envelope?.payload)).toMatchObject({ system_prompt: 'x!!' });
    expect(answer.failure).toBeUndefined();
    expect(outcomes(answer)).toEqual(['a changed', 'bad error', 'c changed']);
  });

  it('ends a rewrite port where its policy is closed', async () => {
    const last = endpoint('last', continues);
    const answer = await run('tools/post-execute', [
      endpoint('bad', () => failed('error'), { failurePolicy: 'closed' }),
      last,
    ]);
    expect(answer.failure).toMatchObject({ code: 'gate_unavailable', plugin: 'bad' });
    expect(last.sent).toEqual([]);
  });

  it.each([
    ['a direction of another port', { type: 'tools/denied' }],
    ['an unknown type', { type: 'agent/output' }],
    ['no JSON', { payload: Buffer.from('{') }],
    ['a wrong field type', { payload: json({ content: 5 }) }],
    ['another chain', { chainId: 'other', payload: json({ content: 'y' }) }],
  ])('by answering with %s', async (_, reply) => {
    const answer = await run('agent/input', [endpoint('liar', () => reply)]);
    expect(outcomes(answer)).toEqual(['liar invalid']);
    expect(answer).toMatchObject({
      failure: { code: 'gate_unavailable', plugin: 'liar' },
      envelope: { payload: nothing, type: '' },
    });
  });

  it('is not asked with more than it takes', async () => {
    const small = endpoint('small', continues, { maxPayloadBytes: 5 });
    const answer = await run('agent/input', [small]);
    expect(small.sent).toEqual([]);
    expect(outcomes(answer)).toEqual(['small oversize']);
  });

  it('never came up: fails every port before anyone is asked', async () => {
    const present = endpoint('present', continues);
    const answer = await run('agent/request', [present], { missing: [{ plugin: 'absent', reason: 'exit code 1' }] });
    expect(answer.failure).toEqual({ code: 'gate_unavailable', plugin: 'absent', reason: 'exit code 1' });
    expect(present.sent).toEqual([]);
  });

  it('keeps only its scratchpad update to itself when that is too large', async () => {
    const answer = await run(
      'agent/input',
      [endpoint('a', (sent) => ({ ...appends('1')(sent), context: json({ big: 'x'.repeat(9_000) }) }))],
      { context: { kept: 1 } },
    );
    expect(answer.envelope?.context).toEqual(nothing);
    expect(answer.outcomes[0]).toMatchObject({
      outcome: 'changed',
      reason: expect.stringContaining('scratchpad update dropped'),
    });
  });
});

describe('the budget', () => {
  it('is answered 100 ms early, with the value so far and the rest not asked', async () => {
    const startedAt = performance.now();
    const changes = (sent: plugin.Envelope) => ({ payload: json({ ...read(sent.payload), system_prompt: 'kept' }) });
    // Two timers of one process keep their order on a busy machine too.
    let tooLate = false;
    let latest: NodeJS.Timeout | undefined;
    const hangs = () => {
      latest = setTimeout(() => {
        tooLate = true;
      }, 290);
      return 'hang' as const;
    };
    const answer = await run(
      'agent/request',
      [endpoint('a', changes), endpoint('slow', hangs), endpoint('late', continues)],
      { budgetMs: 300 },
    );
    clearTimeout(latest);
    expect(tooLate).toBe(false);
    expect(performance.now() - startedAt).toBeGreaterThan(190);
    expect(outcomes(answer)).toEqual(['a changed', 'slow timeout', 'late not asked']);
    expect(read(answer.envelope?.payload)).toMatchObject({ system_prompt: 'kept' });
    expect(answer.failure).toBeUndefined();
  });

  it('makes "not asked" a failure for a closed plugin', async () => {
    const answer = await run(
      'agent/request',
      [endpoint('slow', () => 'hang'), endpoint('late', continues, { failurePolicy: 'closed' })],
      { budgetMs: 150 },
    );
    expect(answer.failure).toMatchObject({ code: 'gate_timeout', plugin: 'late' });
  });

  it('gives one plugin no more than its own limit', async () => {
    const slow = endpoint('slow', () => 'hang', { timeoutMs: 30 });
    const answer = await run('agent/request', [slow, endpoint('next', continues)]);
    expect(slow.sent[0]?.budgetMs).toBe(30);
    expect(outcomes(answer)).toEqual(['slow timeout', 'next continued']);
  });
});

describe('a caller that cancels', () => {
  it('ends the chain: the plugin that is asked is told, the next is not asked', async () => {
    const abort = new AbortController();
    const told: unknown[] = [];
    const slow = endpoint('slow', continues, {
      ask: (_envelope, _timeoutMs, _promisedMs, signal) =>
        new Promise((resolve) => {
          signal?.addEventListener('abort', () => {
            told.push(signal.reason);
            resolve({ kind: 'cancelled' });
          });
          setImmediate(() => abort.abort('enough'));
        }),
    });
    const next = endpoint('next', continues);
    await run('agent/input', [slow, next], { signal: abort.signal });
    expect(told).toEqual(['enough']);
    expect(next.sent).toEqual([]);
  });
});

const acme = { principal: json({ tenant: 'acme', agent: 'coder', mode: 'plan' }) };

describe('match', () => {
  it.each([
    ['{"tenants":["acme"],"agents":["cod*"],"modes":["pl?n"]}', 'continued'],
    ['{"tenants":["other"]}', 'not matched'],
    ['{"modes":["act"]}', 'not matched'],
    ['{"tools":["shell"]}', 'not matched'],
    ['{"tools":["sh*","read"]}', 'not matched'],
  ])('%s at a call of the tool "write" is %s', async (matchJson, outcome) => {
    const plugin = endpoint('p', continues, { matches: compileMatch(matchJson) });
    const answer = await run('tools/pre-execute', [plugin], { envelope: acme, toolName: 'write' });
    expect(answer.outcomes).toMatchObject([{ plugin: 'p', outcome }]);
    expect(plugin.sent).toHaveLength(outcome === 'continued' ? 1 : 0);
    expect(answer.envelope?.seen).toEqual(outcome === 'continued' ? ['p'] : []);
    expect(answer.failure).toBeUndefined();
  });

  it('holds for nobody where the principal is not known', async () => {
    const plugin = endpoint('p', continues, { matches: compileMatch('{"tenants":["acme"]}') });
    for (const principal of [Buffer.alloc(0), Buffer.from('{"tenant"'), json(null), json({ tenant: 1 })]) {
      const { outcomes } = await run('agent/input', [plugin], { envelope: { principal } });
      expect(outcomes).toMatchObject([{ outcome: 'not matched' }]);
    }
  });

  it('limits what a required plugin that never came up fails', async () => {
    const missing = [{ plugin: 'gone', reason: 'no', matches: compileMatch('{"tenants":["other"]}') }];
    expect((await run('agent/input', [], { envelope: acme, missing })).failure).toBeUndefined();
    const other = { principal: json({ tenant: 'other' }) };
    expect((await run('agent/input', [], { envelope: other, missing })).failure).toMatchObject({ plugin: 'gone' });
  });
});

describe('a plugin in shadow mode', () => {
  const shadow = { shadow: true, failurePolicy: 'closed' } as const;

  it('sees the value it would have seen, and its refusal is only recorded', async () => {
    const watcher = endpoint('b', () => ({ type: 'input/blocked', reason: 'no', context: json({ x: 1 }) }), shadow);
    const answer = await run('agent/input', [endpoint('a', appends('!')), watcher, endpoint('c', appends('?'))]);
    expect(read(watcher.sent[0]?.payload)).toEqual({ content: 'x!' });
    expect(read(answer.envelope?.payload)).toEqual({ content: 'x!?' });
    expect(answer.envelope).toMatchObject({ type: '', seen: ['a', 'c'] });
    expect(answer.envelope?.context).toHaveLength(0);
    expect(answer.outcomes).toMatchObject([
      { plugin: 'a', outcome: 'changed' },
      { plugin: 'b', outcome: 'shadow:blocked', reason: 'no' },
      { plugin: 'c', outcome: 'changed' },
    ]);
  });

  it.each(['timeout', 'crashed', 'oversize'] as const)('fails nothing and is not awaited: %s', async (outcome) => {
    const { late, onLateShadow } = lateShadow();
    let end: (result: AskResult) => void = () => undefined;
    // Ends behind the chain: one that waited for it would never end.
    const asked = new Promise<AskResult>((resolve) => {
      end = resolve;
    });
    const watcher = endpoint('w', continues, { ...shadow, ask: () => asked });
    const answer = await run('agent/input', [watcher], { onLateShadow });
    expect(answer).toMatchObject({ failure: undefined, outcomes: [{ outcome: 'shadow:pending' }] });
    end({ kind: 'failed', outcome, reason: `it was ${outcome}`, queueMs: 0 });
    expect(await late).toMatchObject({ plugin: 'w', outcome: `shadow:${outcome}` });
    expect(answer.outcomes).toMatchObject([{ outcome: 'shadow:pending' }]);
  });

  it('gives a broken answer without consequences', async () => {
    const { late, onLateShadow } = lateShadow();
    const watcher = endpoint('w', () => ({ type: 'nonsense/type' }), shadow);
    await run('agent/input', [watcher], { onLateShadow });
    expect(await late).toMatchObject({ outcome: 'shadow:invalid' });
  });
});

describe('reinvoke', () => {
  const again = { reinvoke: true };

  it('asks once more with the final value, under a new chain id', async () => {
    const policy = endpoint('policy', continues, again);
    const answer = await run('agent/input', [policy, endpoint('rewriter', appends('!'))]);
    expect(policy.sent.map(({ payload }) => read(payload))).toEqual([{ content: 'x' }, { content: 'x!' }]);
    expect(policy.sent.map(({ seen }) => seen)).toEqual([[], []]);
    expect(policy.sent[1]?.chainId).not.toBe('chain');
    expect(answer.outcomes.map(({ plugin, outcome }) => [plugin, outcome])).toEqual([
      ['policy', 'continued'],
      ['rewriter', 'changed'],
      ['policy', 'continued'],
    ]);
    expect(answer.envelope).toMatchObject({ chainId: 'chain', seen: ['policy', 'rewriter'] });
  });

  it('does not ask again when nothing changed after it, nor on rewrite ports', async () => {
    const policy = endpoint('policy', appends('!'), again);
    await run('agent/input', [policy, endpoint('other', continues)]);
    expect(policy.sent).toHaveLength(1);
    const rewrites = endpoint('policy', continues, again);
    await run('agent/request', [
      rewrites,
      endpoint('other', () => ({ payload: json({ system_prompt: 'y', messages: [] }) })),
    ]);
    expect(rewrites.sent).toHaveLength(1);
  });

  it('counts its refusal, its ask and its failure', async () => {
    const later = endpoint('later', () => ({ payload: json({ call: { ...call.call, arguments: { a: 2 } } }) }));
    const second = (answer: Answer) => {
      let asked = 0;
      return endpoint('policy', () => (asked++ === 0 ? {} : answer), again);
    };
    const denied = await run('tools/pre-execute', [second({ type: 'tools/denied', reason: 'no' }), later]);
    expect(denied.envelope).toMatchObject({ type: 'tools/denied', reason: 'no' });
    const asks = await run('tools/pre-execute', [second({ type: 'tools/ask', reason: 'sure?' }), later]);
    expect(asks.askReasons).toEqual([{ plugin: 'policy', reason: 'sure?' }]);
    expect(read(asks.envelope?.payload)).toMatchObject({ call: { arguments: { a: 2 } } });
    const fails = await run('tools/pre-execute', [second(failed('crashed')), later]);
    expect(fails.failure).toMatchObject({ plugin: 'policy', code: 'gate_unavailable' });
  });

  it('refuses its changes', async () => {
    const policy = endpoint('policy', appends('#'), again);
    const answer = await run('agent/input', [policy, endpoint('rewriter', appends('!'))]);
    expect(read(answer.envelope?.payload)).toEqual({ content: 'x#!' });
    expect(answer.outcomes.at(-1)).toMatchObject({
      plugin: 'policy',
      outcome: 'continued',
      changed: false,
      reason: expect.stringContaining('changes were refused'),
    });
  });

  it('happens within the same budget', async () => {
    const policy = endpoint('policy', continues, again);
    const slow = endpoint('slow', appends('!'), {
      ask: async (envelope) => {
        await new Promise((resolve) => setTimeout(resolve, 160));
        return { kind: 'answered', reply: { ...envelope, ...appends('!')(envelope) } as plugin.Envelope, queueMs: 0 };
      },
    });
    const answer = await run('agent/input', [policy, slow], { budgetMs: 250 });
    expect(answer.failure).toMatchObject({ code: 'gate_timeout', plugin: 'policy' });
    expect(answer.outcomes.at(-1)).toMatchObject({ outcome: 'not asked' });
  });
});
