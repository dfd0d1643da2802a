import { type Port, ports } from '@codedock/proto';
import { type Answer, definePlugin, hiddenText, type PluginDefinition } from '../index.js';
import type { JsonValue } from '../json.js';
import { conformanceTable, type Decision, sampleQuestions, testPlugin } from '../testing/index.js';

const call = { name: 'deploy', arguments: { to: 'staging' } };

describe('answers', () => {
  it('go on unchanged and carry nothing when a handler answers nothing', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: () => undefined,
      onToolPreExecute: async () => undefined,
    });
    for (const decision of [await tested.agentInput({ content: 'a' }), await tested.toolPreExecute(call)]) {
      expect(decision).toMatchObject({ decision: 'continued', changed: false });
    }
  });

  it('carry no payload when a reply repeats what was sent', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: (input) => input.reply({ content: input.content, mode: input.mode }),
      onAgentPreStep: (step) => step.reply({ systemPrompt: step.systemPrompt, hidden: step.hidden }),
      onAgentRequest: (request) => request.reply({ messages: structuredClone(request.messages) }),
      onLlmStream: (request) => request.reply({ headers: { ...request.headers }, body: structuredClone(request.body) }),
      onToolPreExecute: (input) => input.reply({ arguments: structuredClone(input.call.arguments) }),
      onToolPostExecute: (done) => done.reply({ ...done.result, error: done.result.error ?? null }),
    });
    for (const port of ports) {
      const decision = await tested.ask({ type: port, payload: sampleQuestions[port] });
      expect([port, decision.decision]).toEqual([port, 'continued']);
    }
  });

  it('carry what a handler has changed in place', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentRequest: (request) => {
        for (const message of request.messages) Object.assign(message, { content: { text: 'gone' } });
        return request.reply({ messages: request.messages });
      },
    });
    const { decision, payload } = await tested.ask({
      type: 'agent/request',
      payload: sampleQuestions['agent/request'],
    });
    expect(decision).toBe('changed');
    expect(payload).toMatchObject({ system_prompt: 'You are helpful.', messages: [{ content: { text: 'gone' } }] });
  });

  it('change one member and keep the others', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: (input) => input.reply({ mode: 'plan' }),
      onAgentPreStep: (step) => step.reply({ hidden: [...step.hidden, hiddenText('be brief')] }),
      onToolPreExecute: (input) => input.reply({ arguments: { to: 'production' } }),
      onToolPostExecute: (done) => done.reply({ output: 'short', success: false, error: 'made so' }),
    });
    expect((await tested.agentInput({ content: 'a', mode: 'chat' })).payload).toEqual({ content: 'a', mode: 'plan' });
    expect((await tested.agentPreStep({ systemPrompt: 's' })).payload).toMatchObject({
      system_prompt: 's',
      hidden: [{ role: 'system', content: { text: 'be brief' } }],
    });
    expect((await tested.toolPreExecute(call)).payload).toMatchObject({
      call: { id: 'call-1', name: 'deploy', arguments: { to: 'production' } },
    });
    expect((await tested.toolPostExecute({ call, output: 'long' })).payload).toMatchObject({
      result: { CallID: 'call-1', Name: 'deploy', Output: 'short', Success: false, Error: 'made so' },
    });
  });

  it('write a result in the spelling it was sent in', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onToolPostExecute: (done) => done.reply({ output: `${done.result.output}!` }),
    });
    const payload = {
      call: { id: 'c', name: 'n' },
      result: { call_id: 'c', name: 'n', output: 'o', success: true, error: '' },
    };
    expect((await tested.ask({ type: 'tools/post-execute', payload })).payload).toMatchObject({
      result: { call_id: 'c', name: 'n', output: 'o!', success: true, error: '' },
    });
  });

  it('at llm/stream lay headers over the request and leave an untouched body alone', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onLlmStream: (request) => request.reply({ headers: { 'X-Team': 'a' } }),
    });
    const { payload } = await tested.llmStream({ headers: { accept: 'text/event-stream' }, body: { n: 1 } });
    expect(payload).toEqual({ headers: { accept: 'text/event-stream', 'x-team': 'a' }, body: { n: 1 } });
  });

  it('have the decisions of the protocol, each on its port', async () => {
    const decisions: Decision[] = [];
    const made = (on: Parameters<typeof testPlugin>[0]) => testPlugin(on);
    const base = { name: 'p', version: '1.0.0' };
    decisions.push(await made({ ...base, onAgentInput: (input) => input.handle('done') }).agentInput({ content: 'a' }));
    decisions.push(await made({ ...base, onAgentInput: (input) => input.block('no') }).agentInput({ content: 'a' }));
    decisions.push(await made({ ...base, onAgentPreStep: (step) => step.block('no') }).agentPreStep({}));
    decisions.push(await made({ ...base, onToolPreExecute: (input) => input.deny('no') }).toolPreExecute(call));
    decisions.push(
      await made({
        ...base,
        onToolPreExecute: (input) => input.askApproval('sure?', { arguments: {} }),
      }).toolPreExecute(call),
    );
    decisions.push(
      await made({ ...base, onToolPreExecute: (input) => input.skip({ cached: true }) }).toolPreExecute(call),
    );
    decisions.push(await made({ ...base, onToolPreExecute: (input) => input.abort('stop') }).toolPreExecute(call));
    expect(decisions.map(({ decision, reason }) => [decision, reason])).toEqual([
      ['handled', 'done'],
      ['blocked', 'no'],
      ['blocked', 'no'],
      ['denied', 'no'],
      ['asked', 'sure?'],
      ['skipped', undefined],
      ['aborted', 'stop'],
    ]);
    expect(decisions[4]?.payload).toMatchObject({ call: { arguments: {} } });
    expect(decisions[5]?.skipResult).toEqual({ cached: true });
  });

  it('of another kind than a decision fail the question', async () => {
    const onAgentInput = (() => ({ content: 'x' })) as unknown as () => undefined;
    await expect(
      testPlugin({ name: 'p', version: '1.0.0', onAgentInput }).agentInput({ content: 'a' }),
    ).rejects.toThrow('the handler of agent/input answered something else');
  });

  it('what a handler throws reaches the caller', async () => {
    const onAgentInput = () => {
      throw new Error('no database');
    };
    await expect(
      testPlugin({ name: 'p', version: '1.0.0', onAgentInput }).agentInput({ content: 'a' }),
    ).rejects.toThrow('no database');
  });
});

describe('the scratchpad', () => {
  it('goes back only when something was set', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: (input) => {
        if (input.content === 'write') input.context.set('p.seen', [input.context.get('p.seen') ?? null, 1]);
        if (input.content === 'delete') input.context.delete('p.seen');
      },
    });
    const context = { 'p.seen': 0, other: true };
    const after = async (content: string) => (await tested.agentInput({ content }, { context })).context;
    expect(await after('read')).toEqual(context);
    expect(await after('write')).toEqual({ 'p.seen': [0, 1], other: true });
    expect(await after('delete')).toEqual({ other: true });
  });
});

describe('inputs', () => {
  it('carry who asks and how long there is', async () => {
    const seen: unknown[] = [];
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: ({ principal, budgetMs, sessionId, runId, attempt, seen: before }) => {
        seen.push({ principal, budgetMs, sessionId, runId, attempt, before });
      },
    });
    const principal = { tenant: 't', key: 'k', agent: 'a', metadata: { team: 'x' } };
    await tested.agentInput(
      { content: 'a' },
      { principal, budgetMs: 1_500, sessionId: 's', attempt: 2, seen: ['first'] },
    );
    expect(seen).toEqual([{ principal, budgetMs: 1_500, sessionId: 's', runId: '', attempt: 2, before: ['first'] }]);
  });

  it('of hosts that send nothing but the payload can be read', async () => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: (input) => input.block(JSON.stringify([input.principal, input.mode, input.budgetMs, input.runId])),
    });
    const { reason } = await tested.ask({ type: 'agent/input', payload: { content: 'a' } });
    expect(reason).toBe('[{"metadata":{}},"",null,""]');
  });

  it.each<[Port, JsonValue, string]>([
    ['agent/input', { content: 7 }, 'payload.content is no text'],
    ['agent/request', { messages: {} }, 'payload.messages is no array'],
    ['tools/pre-execute', {}, 'payload.call is no object'],
    ['tools/post-execute', { call: { id: 'c', name: 'n' } }, 'payload.result is no object'],
    ['agent/input', [], 'no JSON object'],
  ])('that cannot be read fail the question: %s %j', async (port, payload, message) => {
    const tested = testPlugin({
      name: 'p',
      version: '1.0.0',
      onAgentInput: () => undefined,
      onAgentRequest: () => undefined,
      onToolPreExecute: () => undefined,
      onToolPostExecute: () => undefined,
    });
    await expect(tested.ask({ type: port, payload })).rejects.toThrow(message);
  });
});

describe('ledger events', () => {
  it('reach the handler of their name', async () => {
    const events: unknown[] = [];
    const byName = testPlugin({
      name: 'p',
      version: '1.0.0',
      onLedgerNotify: { 'run.started': ({ event, payload }) => events.push([event, payload]) },
    });
    const listed = testPlugin({
      name: 'p',
      version: '1.0.0',
      onLedgerNotify: { events: ['turn.started', 'run.failed'], handler: ({ event }) => events.push(event) },
    });
    await byName.notify('run.started', { a: 1 });
    await byName.notify('run.failed');
    await listed.notify('run.failed');
    expect(events).toEqual([['run.started', { a: 1 }], 'run.failed']);
    expect(listed.manifest.subscriptions).toEqual(['turn.started', 'run.failed']);
  });
});

describe('definitions', () => {
  const base = { name: 'p', version: '1.0.0' };

  it('subscribe to what has a handler, or to less', () => {
    const handlers = { onAgentInput: () => undefined, onToolPreExecute: () => undefined };
    expect(testPlugin({ ...base, ...handlers }).manifest.subscriptions).toEqual(['agent/input', 'tools/pre-execute']);
    expect(testPlugin({ ...base, ...handlers, subscriptions: ['agent/input'] }).manifest.subscriptions).toEqual([
      'agent/input',
    ]);
    expect(testPlugin(base).manifest.subscriptions).toEqual([]);
  });

  it.each<[string, object, string]>([
    ['a misspelt handler', { onToolPreExecut: () => undefined }, 'no member "onToolPreExecut"'],
    ['a subscription nobody handles', { subscriptions: ['agent/input'] }, 'has no handler for it'],
    ['a port among the events', { onLedgerNotify: { 'agent/input': () => undefined } }, 'use the handler of that port'],
    ['no name', { name: '' }, 'needs a name'],
  ])('are refused for %s', (_, more, message) => {
    expect(() => testPlugin({ ...base, ...more })).toThrow(message);
  });

  it('allow a direction only on its port', () => {
    const elsewhere = (): Answer<'agent/input'> | undefined => undefined;
    // @ts-expect-error an answer of another port
    const handler: PluginDefinition['onAgentPreStep'] = elsewhere;
    expect(handler).toBeDefined();
    definePlugin({
      ...base,
      // @ts-expect-error deny belongs to tools/pre-execute
      onAgentInput: (input) => input.deny('no'),
      // @ts-expect-error rewriting ports have no directions
      onAgentRequest: (request) => request.block('no'),
      // @ts-expect-error no such change on this port
      onToolPreExecute: (input) => input.reply({ output: 1 }),
      // @ts-expect-error no such handler
      onToolPreExecut: () => undefined,
    });
  });
});

describe('the conformance table', () => {
  it('has one row for each pair of port and type', () => {
    const pairs = conformanceTable.map(({ port, type }) => `${port} ${type}`);
    expect(new Set(pairs).size).toBe(pairs.length);
    expect(conformanceTable.filter(({ meaning }) => !['continued', 'invalid'].includes(meaning))).toHaveLength(7);
  });
});
