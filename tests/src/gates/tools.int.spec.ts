import path from 'node:path';
import {
  callsTools,
  expectNoLeftovers,
  type RecordingProvider,
  recordingProvider,
  says,
  writePlugin,
} from '@codedock/testkit';
import { fakeScript, type RunView, type System, startSystem } from '../system.js';
import {
  asked,
  countRows,
  hookRecords,
  linesOf,
  messages,
  type Policies,
  resultsOf,
  tell,
  traceOf,
  writePolicy,
} from './policies.js';

let provider: RecordingProvider;
let system: System;
let effectFile: string;

const numbered = {
  type: 'object',
  properties: { n: { type: 'integer', maximum: 100 } },
  additionalProperties: false,
};

beforeAll(async () => {
  provider = await recordingProvider();
  system = await startSystem({
    plugins: async (root) => {
      effectFile = path.join(path.dirname(root), 'effects.jsonl');
      const ports = ['tools/pre-execute', 'tools/post-execute'];
      await writePolicy(root, '10-first', { ports });
      await writePolicy(root, '20-second', { ports });
      await writePlugin(root, 'toolbox', {
        mode: 'tools',
        tools: [
          { name: 'note', parameters: numbered, effectFile },
          { name: 'guarded', parameters: numbered, effectFile, requiresApproval: true },
          { name: 'look', effectFile, effect: 'pure', result: 'raw' },
          { name: 'flaky', effectFile, effect: 'pure', outcome: 'fail' },
          { name: 'risky', effectFile, outcome: 'fail' },
          { name: 'denied', effectFile },
        ],
      });
    },
    agents: [
      {
        name: 'tools',
        model: { provider: 'fake', name: 'fake' },
        tools: ['ping'],
        deniedTools: ['denied'],
        retry: { maxAttempts: 4, baseDelayMs: 1, maxDelayMs: 5 },
      },
      { name: 'http', model: { provider: 'openai', name: 'recorded' }, tools: ['ping'] },
      { name: 'auto', model: { provider: 'fake', name: 'fake' }, approvalMode: 'auto' },
      { name: 'never', model: { provider: 'fake', name: 'fake' }, approvalMode: 'never' },
    ],
    runnerEnv: { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: provider.baseUrl, RUNNER_DRAIN_TIMEOUT: '1s' },
  });
}, 150_000);

afterAll(async () => {
  await system.stop();
  await provider.close();
  await expectNoLeftovers();
});

interface Effect {
  readonly tool: string;
  readonly callId: string;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly args: unknown;
}

type Call = readonly [name: string, args?: unknown];

/** Starts a run whose model calls these tools in one turn, then ends. */
async function start(calls: readonly Call[], policies: Policies = {}, agent = 'tools'): Promise<RunView> {
  const toolCalls = calls.map(([name, args = {}]) => ({ name, arguments: args }));
  const content = fakeScript({ toolCalls }, { text: 'finished' });
  return system.startRun(await system.createSession(), { content, agent, metadata: tell(policies) });
}

async function toEnd(calls: readonly Call[], policies: Policies = {}, agent = 'tools'): Promise<RunView> {
  return system.waitForEnd((await start(calls, policies, agent)).id);
}

/** The effects of a run's calls. */
async function effectsOf({ id }: RunView): Promise<Effect[]> {
  const ids = new Set((await traceOf(system, id)).calls.map((call) => call.id));
  return linesOf<Effect>(effectFile).filter(({ callId }) => ids.has(callId));
}

/** A run's calls, each with the source of its result. */
async function callsOf(run: RunView) {
  const [{ calls }, results] = await Promise.all([traceOf(system, run.id), resultsOf(system, run)]);
  return calls.map((call) => {
    const { source, by } = results.find(({ callId }) => callId === call.id) ?? {};
    return { ...call, source, by };
  });
}

const approvalRows = (run: RunView) => countRows(system, 'approvals', { column: 'run_id', value: run.id });

/** What the model is told of its calls, in order. */
async function toldToModel(run: RunView): Promise<string[]> {
  const all = await messages(system, run.sessionId);
  return all.filter(({ role }) => role === 'tool').map(({ content }) => JSON.stringify(content.output));
}

interface ApprovalView {
  readonly id: string;
  readonly status: string;
  readonly calls: readonly {
    readonly callId: string;
    readonly tool: string;
    readonly arguments: unknown;
    readonly reasons: readonly { readonly by: string; readonly reason: string }[];
  }[];
}

/** The open approval that a run waits for. */
async function approvalOf({ id }: RunView): Promise<ApprovalView> {
  const waiting = await system.waitForRun(id, ({ status }) => status !== 'queued' && status !== 'running');
  expect(waiting.status).toBe('waiting_approval');
  const { body } = await system.api<{ items: ApprovalView[] }>('GET', `/v1/approvals?runId=${id}&status=open`);
  expect(body.items).toHaveLength(1);
  return body.items[0] as ApprovalView;
}

async function decide(
  approval: ApprovalView,
  decisionOf: (tool: string) => { decision: 'approve' } | { decision: 'deny'; reason?: string },
): Promise<void> {
  const decisions = approval.calls.map(({ callId, tool }) => ({ callId, ...decisionOf(tool) }));
  const answer = await system.api('POST', `/v1/approvals/${approval.id}/decisions`, { decisions });
  expect(answer.status).toBe(200);
}
const approve = () => ({ decision: 'approve' }) as const;

describe('a tool of a plugin', () => {
  it('is offered to the model, gated, approved and executed once', async () => {
    const before = provider.requests.length;
    provider.script(callsTools([{ id: 'c1', name: 'guarded', arguments: { n: 7 } }]), says('finished'));
    const run = await start([], {}, 'http');
    const approval = await approvalOf(run);
    expect(await effectsOf(run)).toEqual([]);
    expect(approval.calls).toMatchObject([
      { tool: 'guarded', arguments: { n: 7 }, reasons: [{ by: 'tool', reason: expect.stringContaining('guarded') }] },
    ]);
    await decide(approval, approve);
    expect((await system.waitForEnd(run.id)).status).toBe('completed');

    const offered = (
      (await provider.waitForRequest(before)).json() as {
        tools: { function: { name: string; parameters: unknown } }[];
      }
    ).tools;
    expect(offered.map((tool) => tool.function.name)).toEqual(
      expect.arrayContaining(['ping', 'note', 'guarded', 'look']),
    );
    expect(offered.find((tool) => tool.function.name === 'guarded')?.function.parameters).toEqual(numbered);
    expect(await effectsOf(run)).toMatchObject([{ tool: 'guarded', attempt: 1, args: { n: 7 } }]);
    expect(await callsOf(run)).toMatchObject([{ name: 'guarded', state: 'succeeded' }]);
    const ports = asked(system, { runId: run.id }).map(({ plugin, port }) => [plugin, port]);
    // An approved call is not asked about again.
    expect(ports).toEqual([
      ['10-first', 'tools/pre-execute'],
      ['20-second', 'tools/pre-execute'],
      ['10-first', 'tools/post-execute'],
      ['20-second', 'tools/post-execute'],
    ]);
    const second = provider.requests[before + 1]?.json() as { messages: { role: string; content: string }[] };
    expect(second.messages.at(-1)).toMatchObject({
      role: 'tool',
      tool_call_id: 'c1',
      content: JSON.stringify({ ok: true, args: { n: 7 } }),
    });
  });

  it('is executed without a person where the agent waives it, and not at all where nobody is to be asked', async () => {
    const auto = await toEnd([['guarded']], {}, 'auto');
    expect(await effectsOf(auto)).toHaveLength(1);
    expect(await approvalRows(auto)).toBe(0);
    const never = await toEnd([['guarded']], {}, 'never');
    expect(await effectsOf(never)).toEqual([]);
    expect(await approvalRows(never)).toBe(0);
    expect(await callsOf(never)).toMatchObject([{ state: 'denied', source: 'host' }]);
  });
});

describe('before a tool call', () => {
  it('a blocked call is executed zero times, leaves no approval and tells the model', async () => {
    const run = await toEnd(
      [
        ['note', { n: 1 }],
        ['guarded', { n: 2 }],
      ],
      {
        '10-first': { 'tools/pre-execute': { note: { decide: ['deny', 'no notes'] } } },
        '20-second': { 'tools/pre-execute': { guarded: { decide: ['deny', 'nor this'] } } },
      },
    );
    expect(run.status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    expect(await approvalRows(run)).toBe(0);
    expect(await callsOf(run)).toMatchObject([
      { name: 'note', state: 'blocked', source: 'hook' },
      { name: 'guarded', state: 'blocked', source: 'hook' },
    ]);
    expect(await toldToModel(run)).toEqual([expect.stringContaining('no notes'), expect.stringContaining('nor this')]);
    // Nothing was executed, so there is no result to look at.
    expect(asked(system, { runId: run.id, port: 'tools/post-execute' })).toEqual([]);
    const records = await hookRecords(system, { runId: run.id });
    expect(records).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ gate: 'beforeToolCall', hook: '10-first', outcome: 'blocked', reason: 'no notes' }),
      ]),
    );
  });

  it.each<[string, unknown, string]>([
    ['invalid', { n: 'not a number' }, 'invalid'],
    ['out of bounds', { n: 101 }, 'invalid'],
    ['of an unknown member', { m: 1 }, 'invalid'],
    ['no object', 'text', 'invalid'],
  ])('arguments changed to something %s: zero executions, a failed result of the host', async (_, args, text) => {
    const run = await toEnd([['note', { n: 1 }]], {
      '10-first': { 'tools/pre-execute': { note: { change: { arguments: args } as never } } },
    });
    expect(run.status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    const [call] = await callsOf(run);
    expect(call).toMatchObject({ state: 'failed', source: 'host', result: { success: false } });
    expect(call?.result?.error).toContain(text);
    expect(await approvalRows(run)).toBe(0);
    expect((await toldToModel(run))[0]).toContain('policy changed the call');
  });

  it.each(['denied', 'unheard_of'])(
    'a forbidden call (%s) fails in the host’s name and no plugin is asked',
    async (name) => {
      const run = await toEnd([[name]]);
      expect(await effectsOf(run)).toEqual([]);
      expect(await callsOf(run)).toMatchObject([{ name, state: 'failed', source: 'host' }]);
      expect(asked(system, { runId: run.id })).toEqual([]);
    },
  );

  it('another tool’s name in the answer is no answer: zero executions, a failed result of the host', async () => {
    const run = await toEnd([['look']], {
      '20-second': { 'tools/pre-execute': { look: { raw: '{"call":{"name":"note","arguments":{}}}' } } },
    });
    expect(run.status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    expect(await callsOf(run)).toMatchObject([{ name: 'look', state: 'failed', source: 'host', by: '20-second' }]);
    expect((await toldToModel(run))[0]).toContain('20-second');
  });

  it('valid changed arguments are what is executed, and what the next plugin sees', async () => {
    const run = await toEnd([['note', { n: 1 }]], {
      '10-first': { 'tools/pre-execute': { note: { change: { arguments: { n: 42 } } } } },
    });
    expect(await effectsOf(run)).toMatchObject([{ tool: 'note', args: { n: 42 } }]);
    const payloads = asked(system, { runId: run.id, port: 'tools/pre-execute' }).map(
      ({ payload }) => (JSON.parse(payload) as { call: { arguments: unknown } }).call.arguments,
    );
    expect(payloads).toEqual([{ n: 1 }, { n: 42 }]);
  });

  it('one asks, a later one blocks: zero approvals, zero executions', async () => {
    const run = await toEnd([['note']], {
      '10-first': { 'tools/pre-execute': { note: { decide: ['askApproval', 'look at this'] } } },
      '20-second': { 'tools/pre-execute': { note: { decide: ['deny', 'no need to'] } } },
    });
    expect(run.status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    expect(await approvalRows(run)).toBe(0);
    expect(await callsOf(run)).toMatchObject([{ state: 'blocked' }]);
    expect((await system.events(run.sessionId)).map(({ type }) => type)).not.toContain('tool.approval_required');
  });

  it('skip: the result is the plugin’s, successful, and nothing is executed', async () => {
    const run = await toEnd([['note'], ['look']], {
      '10-first': {
        'tools/pre-execute': { note: { decide: ['skip', { cached: [1, 2] }] }, look: { decide: ['skip'] } },
      },
    });
    expect(run.status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    expect(await callsOf(run)).toMatchObject([
      { state: 'skipped', source: 'hook', result: { success: true, output: { cached: [1, 2] } } },
      { state: 'skipped', source: 'hook', result: { success: true, output: expect.stringContaining('skipped') } },
    ]);
    expect((await toldToModel(run))[0]).toBe('{"cached":[1,2]}');
  });

  it('abort: the run ends blocked, and no call of the turn is executed', async () => {
    const run = await toEnd([['note'], ['look']], {
      '20-second': { 'tools/pre-execute': { look: { decide: ['abort', 'enough'] } } },
    });
    expect(run).toMatchObject({
      status: 'blocked',
      stopReason: 'aborted_by_hook',
      message: 'enough',
      by: '20-second',
    });
    expect(await effectsOf(run)).toEqual([]);
    expect((await callsOf(run)).map(({ state }) => state)).toEqual(['cancelled', 'cancelled']);
  });
});

describe('a plugin that asks for approval', () => {
  it('approve: executed once, with all reasons and the arguments as changed before the person', async () => {
    const run = await start([['note', { n: 1 }]], {
      '10-first': {
        'tools/pre-execute': { note: { decide: ['askApproval', 'first'], change: { arguments: { n: 5 } } } },
      },
      '20-second': { 'tools/pre-execute': { note: { decide: ['askApproval', 'second'] } } },
    });
    const approval = await approvalOf(run);
    expect(approval.calls).toMatchObject([
      {
        tool: 'note',
        arguments: { n: 5 },
        reasons: [
          { by: '10-first', reason: 'first' },
          { by: '20-second', reason: 'second' },
        ],
      },
    ]);
    expect(await effectsOf(run)).toEqual([]);
    await decide(approval, approve);
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    expect(await effectsOf(run)).toMatchObject([{ args: { n: 5 } }]);
    expect(asked(system, { runId: run.id, port: 'tools/pre-execute' })).toHaveLength(2);
    expect(await approvalRows(run)).toBe(1);
    expect((await system.events(run.sessionId)).map(({ type }) => type)).toEqual(
      expect.arrayContaining(['tool.approval_required', 'tool.approval_decided', 'tool.execution_result']),
    );
  });

  it('deny: not executed, and the model is told why', async () => {
    const before = provider.requests.length;
    provider.script(callsTools([{ id: 'c1', name: 'note', arguments: { n: 1 } }]), says('understood'));
    const run = await start(
      [],
      { '10-first': { 'tools/pre-execute': { note: { decide: ['askApproval', 'is this right?'] } } } },
      'http',
    );
    await decide(await approvalOf(run), () => ({ decision: 'deny', reason: 'wrong customer' }));
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    expect(await effectsOf(run)).toEqual([]);
    expect(await callsOf(run)).toMatchObject([{ state: 'denied', source: 'person' }]);
    const second = provider.requests[before + 1]?.json() as { messages: { role: string; content: string }[] };
    expect(second.messages.at(-1)).toMatchObject({ role: 'tool', content: expect.stringContaining('wrong customer') });
  });

  it('two calls of a turn ask in one approval; a third waits with them; nothing is executed before', async () => {
    const run = await start([['note', { n: 1 }], ['look'], ['guarded', { n: 3 }]], {
      '20-second': { 'tools/pre-execute': { note: { decide: ['askApproval', 'sure?'] } } },
    });
    const approval = await approvalOf(run);
    expect(approval.calls.map(({ tool }) => tool)).toEqual(['note', 'guarded']);
    expect(await effectsOf(run)).toEqual([]);
    await decide(approval, (tool) => (tool === 'note' ? { decision: 'approve' } : { decision: 'deny' }));
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    expect((await effectsOf(run)).map(({ tool }) => tool).sort()).toEqual(['look', 'note']);
    expect((await callsOf(run)).map(({ state }) => state)).toEqual(['succeeded', 'succeeded', 'denied']);
    expect(await approvalRows(run)).toBe(1);
    // The gates were passed once per call, over the wait.
    expect(asked(system, { runId: run.id, port: 'tools/pre-execute', plugin: '10-first' })).toHaveLength(3);
  });

  it('asks even where the agent waives the approval of tools, and is a denial where nobody is to be asked', async () => {
    const policies = { '10-first': { 'tools/pre-execute': { note: { decide: ['askApproval', 'hm'] } } } } as const;
    const auto = await start([['note']], policies, 'auto');
    await decide(await approvalOf(auto), approve);
    expect((await system.waitForEnd(auto.id)).status).toBe('completed');
    expect(await effectsOf(auto)).toHaveLength(1);
    const never = await toEnd([['note']], policies, 'never');
    expect(await effectsOf(never)).toEqual([]);
    expect(await callsOf(never)).toMatchObject([{ state: 'denied' }]);
  });
});

describe('after a tool call', () => {
  it('is asked once for every attempt, and success ends the retries', async () => {
    const run = await toEnd([['flaky']], {
      '10-first': {
        'tools/post-execute': {
          flaky: { onExecution: 3, change: { success: true, output: 'good enough', error: null } },
        },
      },
    });
    expect(run.status).toBe('completed');
    expect((await effectsOf(run)).map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set((await effectsOf(run)).map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(asked(system, { runId: run.id, port: 'tools/post-execute', plugin: '10-first' })).toHaveLength(3);
    expect(asked(system, { runId: run.id, port: 'tools/pre-execute', plugin: '10-first' })).toHaveLength(1);
    const [call] = await callsOf(run);
    expect(call).toMatchObject({ state: 'succeeded', result: { success: true, output: 'good enough' } });
    expect(call?.result).not.toHaveProperty('error');
    expect((await traceOf(system, run.id)).executions).toHaveLength(3);
  });

  it('without it the same tool uses up its attempts', async () => {
    const run = await toEnd([['flaky']]);
    expect(await effectsOf(run)).toHaveLength(4);
    expect(await callsOf(run)).toMatchObject([{ state: 'failed', source: 'tool' }]);
  });

  it('a failure made of a success is retried where that is harmless', async () => {
    const run = await toEnd([['look']], {
      '20-second': {
        'tools/post-execute': { look: { onExecution: 1, change: { success: false, error: 'not good enough' } } },
      },
    });
    expect(await effectsOf(run)).toHaveLength(2);
    expect(await callsOf(run)).toMatchObject([{ state: 'succeeded', result: { output: 'raw' } }]);
  });

  it.each(['note', 'risky'])(
    'an effectful call (%s) is never executed again because a plugin says so',
    async (name) => {
      const run = await toEnd([[name]], {
        '10-first': { 'tools/post-execute': { [name]: { change: { success: false, error: 'again!' } } } },
      });
      expect(await effectsOf(run)).toHaveLength(1);
      expect(asked(system, { runId: run.id, port: 'tools/post-execute', plugin: '10-first' })).toHaveLength(1);
      expect(await callsOf(run)).toMatchObject([{ state: 'failed', result: { error: 'again!' } }]);
    },
  );

  it('two plugins in folder order: the second sees what the first changed, and only that is stored', async () => {
    const run = await toEnd([['look']], {
      '10-first': { 'tools/post-execute': { look: { append: '-1' } } },
      '20-second': { 'tools/post-execute': { look: { append: '-2' } } },
    });
    const outputs = asked(system, { runId: run.id, port: 'tools/post-execute' }).map(
      ({ payload }) => (JSON.parse(payload) as { result: { Output: unknown } }).result.Output,
    );
    expect(outputs).toEqual(['raw', 'raw-1']);
    expect(await toldToModel(run)).toEqual(['"raw-1-2"']);
    const events = await system.events(run.sessionId);
    expect(JSON.stringify(events)).not.toContain('"raw"');
  });
});
