import { eventually, expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { fakeScript, type RunView, type System, startSystem } from '../system.js';
import { type Asked, asked, hookRecords, messages, type Policies, tell, writePolicy } from './policies.js';

let system: System;

beforeAll(async () => {
  system = await startSystem({
    plugins: async (root) => {
      await writePolicy(root, '10-first', { events: ['run.completed', 'run.blocked'] });
      await writePolicy(root, '20-second', { ports: ['agent/input', 'agent/request', 'tools/pre-execute'] });
      await writePlugin(root, 'toolbox', {
        mode: 'tools',
        tools: [
          { name: 'left', effect: 'pure' },
          { name: 'right', effect: 'pure' },
        ],
      });
    },
    runnerEnv: { RUNNER_DRAIN_TIMEOUT: '1s' },
  });
}, 150_000);

afterAll(async () => {
  await system.stop();
  await expectNoLeftovers();
});

const BOTH = fakeScript({ toolCalls: [{ name: 'left' }, { name: 'right' }] }, { text: 'done' });

async function start(content: string, policies: Policies): Promise<RunView> {
  return system.startRun(await system.createSession(), { content, metadata: tell(policies) });
}

const toEnd = async (content: string, policies: Policies) => system.waitForEnd((await start(content, policies)).id);

const bagOf = ({ context }: Asked) => JSON.parse(context || '{}') as Record<string, unknown>;
/** The bag as the first plugin got it at a port, each time. */
const bags = (run: RunView, port: string, plugin = '10-first') =>
  asked(system, { runId: run.id, port, plugin }).map(bagOf);

async function stored({ id }: RunView): Promise<unknown> {
  const { rows } = await system.db.query<{ scratchpad: unknown }>('SELECT scratchpad FROM runs WHERE id = $1', [id]);
  return rows[0]?.scratchpad;
}

const notes = async (run: RunView) =>
  (await hookRecords(system, { runId: run.id })).filter(({ reason }) => reason?.includes('scratchpad'));

it('moves from the input to the run, follows every gate in order, and is gone with the end', async () => {
  const run = await start(fakeScript({ toolCalls: [{ name: 'left' }] }, { text: 'done', delayMs: 300 }), {
    '10-first': {
      'agent/input': { remember: { 'first.input': 1 } },
      'agent/pre-step': { remember: { 'first.start': 2 } },
      'agent/request': { remember: { 'first.request': 3 } },
      'tools/pre-execute': { left: { remember: { 'first.before': 4 } } },
      'tools/post-execute': { left: { remember: { 'first.after': { deep: [5] } } } },
    },
  });
  expect((await system.waitForEnd(run.id)).status).toBe('completed');
  const whole = {
    'first.input': 1,
    'first.start': 2,
    'first.request': 3,
    'first.before': 4,
    'first.after': { deep: [5] },
  };
  const upTo = (count: number) => Object.fromEntries(Object.entries(whole).slice(0, count));
  // The second plugin of a chain has what the first remembered in it.
  expect(asked(system, { sessionId: run.sessionId, port: 'agent/input' }).map(bagOf)).toEqual([{}, upTo(1)]);
  expect(bags(run, 'agent/pre-step')).toEqual([upTo(1)]);
  expect(bags(run, 'tools/pre-execute')).toEqual([upTo(3)]);
  expect(bags(run, 'tools/pre-execute', '20-second')).toEqual([upTo(4)]);
  expect(bags(run, 'tools/post-execute')).toEqual([upTo(4)]);
  expect(bags(run, 'agent/request')).toEqual([upTo(2), whole]);
  expect(await stored(run)).toEqual({});
  expect(await notes(run)).toEqual([]);
  expect(JSON.stringify([await messages(system, run.sessionId), await system.events(run.sessionId)])).not.toContain(
    'deep',
  );
});

it.each<[string, Policies, number]>([
  ['handled', { '20-second': { 'agent/input': { decide: ['handle'] } } }, 200],
  ['blocked', { '20-second': { 'agent/input': { decide: ['block', 'no'] } } }, 403],
  ['could not be asked', { '20-second': { 'agent/input': { throw: 'broken' } } }, 503],
])('an input that was %s leaves nothing of it to the next', async (_, policies, code) => {
  const sessionId = await system.createSession();
  const remembering = { '10-first': { 'agent/input': { remember: { secret: 'x' } } } };
  const answer = await system.api('POST', `/v1/sessions/${sessionId}/runs`, {
    content: 'hello',
    metadata: tell({ ...remembering, ...policies }),
  });
  expect(answer.status).toBe(code);
  const run = await system.startRun(sessionId, { content: 'hello' });
  expect((await system.waitForEnd(run.id)).status).toBe('completed');
  const inputs = asked(system, { sessionId, port: 'agent/input' }).map(bagOf);
  expect(inputs).toEqual([{}, { secret: 'x' }, {}, {}]);
  expect(bags(run, 'agent/pre-step')).toEqual([{}]);
});

it('what calls of one turn remember at the same time is merged by key', async () => {
  const run = await toEnd(BOTH, {
    '10-first': {
      'tools/pre-execute': {
        left: { remember: { left: 'l' }, delayMs: 200 },
        right: { remember: { right: 'r' }, delayMs: 200 },
      },
    },
  });
  // Neither saw the other's: they were asked at the same time.
  expect(bags(run, 'tools/pre-execute')).toEqual([{}, {}]);
  expect(bags(run, 'agent/request')).toEqual([{}, { left: 'l', right: 'r' }]);
  expect(await notes(run)).toEqual([]);
});

it('the same key at the same time: the later wins, and it is recorded', async () => {
  const run = await toEnd(BOTH, {
    '10-first': {
      'tools/pre-execute': {
        left: { remember: { who: 'late' }, delayMs: 500 },
        right: { remember: { who: 'early' }, delayMs: 150 },
      },
    },
  });
  expect(bags(run, 'agent/request')).toEqual([{}, { who: 'late' }]);
  expect(await notes(run)).toMatchObject([
    { gate: 'beforeToolCall', hook: 'host', reason: 'scratchpad.conflict: who' },
  ]);
});

describe('over 8 KiB', () => {
  it('an update is dropped and recorded; the gate’s answer counts', async () => {
    const run = await toEnd('hello', {
      '10-first': {
        'agent/pre-step': { remember: { small: 1 } },
        'agent/request': { remember: { large: 'x'.repeat(8_300) }, append: ' appended' },
      },
      '20-second': { 'agent/request': { remember: { fits: 1 } } },
    });
    expect(run.status).toBe('completed');
    expect(bags(run, 'agent/request', '20-second')).toEqual([{ small: 1 }]);
    expect(asked(system, { runId: run.id, port: 'agent/request', plugin: '20-second' })[0]?.payload).toContain(
      ' appended',
    );
    expect(await notes(run)).toMatchObject([
      { gate: 'transformContext', hook: '10-first', outcome: 'changed', reason: expect.stringContaining('dropped') },
    ]);
  });

  it('two updates that fit alone but not together: the later is dropped and recorded', async () => {
    const run = await toEnd(BOTH, {
      '10-first': {
        'tools/pre-execute': {
          left: { remember: { left: 'l'.repeat(5_000) }, delayMs: 500 },
          right: { remember: { right: 'r'.repeat(5_000) }, delayMs: 150 },
        },
      },
    });
    expect(run.status).toBe('completed');
    expect(bags(run, 'agent/request').map((bag) => Object.keys(bag))).toEqual([[], ['right']]);
    expect(await notes(run)).toMatchObject([
      { gate: 'beforeToolCall', hook: 'host', outcome: 'oversize', reason: expect.stringContaining('dropped') },
    ]);
  });
});

it('is there again after a wait for approval, and with the notice of the end', async () => {
  const run = await start(fakeScript({ toolCalls: [{ name: 'left' }] }), {
    '10-first': {
      'agent/input': { remember: { input: 1 } },
      'tools/pre-execute': { left: { remember: { before: 2 }, decide: ['askApproval', 'sure?'] } },
    },
  });
  await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval');
  expect(await stored(run)).toEqual({ input: 1, before: 2 });
  const { body } = await system.api<{ items: { id: string; calls: { callId: string }[] }[] }>(
    'GET',
    `/v1/approvals?runId=${run.id}`,
  );
  const approval = body.items[0];
  await system.api('POST', `/v1/approvals/${approval?.id}/decisions`, {
    decisions: [{ callId: approval?.calls[0]?.callId, decision: 'approve' }],
  });
  expect((await system.waitForEnd(run.id)).status).toBe('completed');
  expect(bags(run, 'tools/post-execute')).toEqual([{ input: 1, before: 2 }]);
  await eventually(() => expect(bags(run, 'run.completed')).toEqual([{ input: 1, before: 2 }]));
  expect(await stored(run)).toEqual({});
});
