import { eventually, expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { type EventView, fakeScript, type RunView, type System, startSystem } from '../system.js';
import { asked, hookRecords, type Policies, tell, writePolicy } from './policies.js';

const HANGING = fakeScript({ hang: true });
const TERMINAL = ['run.completed', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.blocked'];
const EVENTS = [
  ...TERMINAL,
  'run.created',
  'run.started',
  'run.state_changed',
  'turn.started',
  'turn.completed',
  'turn.usage_recorded',
  'assistant.started',
  'assistant.delta',
  'assistant.completed',
  'tool.call_started',
  'tool.approval_required',
  'tool.approval_decided',
  'tool.execution_started',
  'tool.execution_result',
];

let system: System;
/** Every run that a case of the terminal states ended, and how. */
const ended: RunView[] = [];

beforeAll(async () => {
  system = await startSystem({
    plugins: async (root) => {
      await writePolicy(root, '10-policy', { ports: ['agent/pre-step', 'tools/pre-execute'] });
      await writePolicy(root, 'matched', {
        ports: ['agent/pre-step', 'agent/request'],
        match: { agents: ['matched'] },
      });
      await writePolicy(root, 'watcher', { ports: [], events: EVENTS });
      await writePlugin(root, 'toolbox', { mode: 'tools', tools: [{ name: 'look', effect: 'pure', result: 'seen' }] });
    },
    agents: [
      { name: 'short', model: { provider: 'fake', name: 'fake' }, limits: { wallTimeMs: 300 } },
      { name: 'matched', model: { provider: 'fake', name: 'fake' } },
    ],
    runnerEnv: { RUNNER_DRAIN_TIMEOUT: '1s', CODEDOCK_RUNNER_CONCURRENCY: '2' },
  });
}, 150_000);

afterAll(async () => {
  await system.stop();
  await expectNoLeftovers();
});

const start = async (content: string, policies: Policies = {}, agent = 'default') =>
  system.startRun(await system.createSession(), { content, agent, metadata: tell(policies) });
const status = (run: RunView, wanted: string) => system.waitForRun(run.id, (view) => view.status === wanted);
const cancel = (run: RunView) => system.api<RunView>('POST', `/v1/runs/${run.id}/cancel`);
const told = (run: Pick<RunView, 'id'>) => asked(system, { plugin: 'watcher', runId: run.id });

describe('onRunEnd reaches a plugin once, as the terminal event, when a run', () => {
  const ask: Policies = { '10-policy': { 'tools/pre-execute': { look: { decide: ['askApproval', 'sure?'] } } } };
  const look = fakeScript({ toolCalls: [{ name: 'look' }] });

  it.each<[string, 'run.completed' | (string & {}), string, () => Promise<RunView>]>([
    ['completes', 'run.completed', 'completed', () => start('hello')],
    ['fails', 'run.failed', 'model_error', () => start(fakeScript({ fail: 'provider_rejected' }))],
    ['takes too long', 'run.timed_out', 'timeout', () => start(HANGING, {}, 'short')],
    [
      'is blocked at its start',
      'run.blocked',
      'blocked_by_hook',
      () => start('x', { '10-policy': { 'agent/pre-step': { decide: ['block', 'no'] } } }),
    ],
    [
      'is aborted at a tool call',
      'run.blocked',
      'aborted_by_hook',
      () => start(look, { '10-policy': { 'tools/pre-execute': { look: { decide: ['abort', 'no'] } } } }),
    ],
    [
      'is cancelled while it runs',
      'run.cancelled',
      'cancelled',
      async () => {
        const run = await start(HANGING);
        await status(run, 'running');
        await cancel(run);
        return run;
      },
    ],
    [
      'is cancelled while its model listens to nothing',
      'run.cancelled',
      'cancelled',
      async () => {
        const run = await start(fakeScript({ hang: true, ignoreAbort: true }));
        await status(run, 'running');
        await cancel(run);
        return run;
      },
    ],
    [
      'is interrupted',
      'run.cancelled',
      'interrupted',
      async () => {
        const run = await start(HANGING);
        await status(run, 'running');
        ended.push(await system.startRun(run.sessionId, { content: 'instead', onBusy: 'interrupt' }));
        return run;
      },
    ],
    [
      'is cancelled while it waits for approval',
      'run.cancelled',
      'cancelled',
      async () => {
        const run = await start(look, ask);
        await status(run, 'waiting_approval');
        await cancel(run);
        return run;
      },
    ],
    [
      'is cancelled while pending',
      'run.cancelled',
      'cancelled',
      async () => {
        const active = await start(HANGING);
        await status(active, 'running');
        const run = await system.startRun(active.sessionId, { content: 'later', onBusy: 'enqueue' });
        expect(run.status).toBe('pending');
        await cancel(run);
        await cancel(active);
        ended.push(active);
        return run;
      },
    ],
    [
      'is cancelled while queued',
      'run.cancelled',
      'cancelled',
      async () => {
        const busy = await Promise.all([start(HANGING), start(HANGING)]);
        for (const run of busy) await status(run, 'running');
        const run = await start('no runner has time');
        expect((await cancel(run)).body).toMatchObject({ status: 'cancelled', attempt: expect.any(Number) });
        expect((await system.events(run.sessionId)).map(({ type }) => type)).not.toContain('run.started');
        for (const each of busy) await cancel(each);
        ended.push(...busy);
        return run;
      },
    ],
  ])('%s', async (_, type, stopReason, act) => {
    const run = await system.waitForEnd((await act()).id);
    expect(run).toMatchObject({ status: type.slice('run.'.length), stopReason });
    ended.push(run);
    const notice = await eventually(() => told(run).find(({ port }) => TERMINAL.includes(port)) ?? false, {
      what: `the end of run ${run.id} to be told`,
    });
    expect(notice.port).toBe(type);
    expect(JSON.parse(notice.payload)).toMatchObject({ stopReason });
  });

  it('and never twice', async () => {
    // Enough of them to notice what is sent on two ways.
    expect(ended.length).toBeGreaterThan(11);
    for (const { id } of ended) {
      const run = await system.waitForEnd(id);
      await eventually(() => told(run).some(({ port }) => TERMINAL.includes(port)));
      expect(
        told(run)
          .filter(({ port }) => TERMINAL.includes(port))
          .map(({ port }) => port),
      ).toEqual([`run.${run.status}`]);
    }
  });
});

describe('a plugin', () => {
  it('that subscribes to events is told each of them once, in order, and never a delta', async () => {
    const run = await start(
      fakeScript({ chunks: ['a', 'b', 'c'], chunkDelayMs: 60, toolCalls: [{ name: 'look' }] }, { text: 'done' }),
    );
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    const ledger = (await system.events(run.sessionId)).map(({ type }: EventView) => type);
    expect(ledger.filter((type) => type === 'assistant.delta').length).toBeGreaterThan(2);
    const expected = ledger.filter((type) => type !== 'assistant.delta');
    await eventually(() => told(run).length >= expected.length, { what: `${expected.length} notices` });
    const notices = told(run).map(({ port }) => port);
    expect([...notices].sort()).toEqual([...expected].sort());
    // The runner tells in the order of the ledger; the gateway's own event may come in between.
    const ofRunner = (types: readonly string[]) =>
      types.filter((type) => type.startsWith('turn.') || type.startsWith('tool.'));
    expect(ofRunner(notices)).toEqual(ofRunner(expected));
    expect(asked(system).filter(({ port }) => port === 'assistant.delta')).toEqual([]);
  });

  it('is not asked at a port it does not subscribe to, nor one that does not match', async () => {
    const run = await start('hello');
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    expect(asked(system, { runId: run.id }).filter(({ plugin }) => plugin !== 'watcher')).toMatchObject([
      { plugin: '10-policy', port: 'agent/pre-step' },
    ]);
    // The gate that asks nobody else leaves no record either: it was not asked at all.
    const records = await hookRecords(system, { runId: run.id });
    expect(records.map(({ gate, hook, outcome }) => [gate, hook, outcome])).toEqual([
      ['beforeRunStart', '10-policy', 'continued'],
      ['beforeRunStart', 'matched', 'not matched'],
    ]);
    const matched = await start('hello', {}, 'matched');
    expect((await system.waitForEnd(matched.id)).status).toBe('completed');
    expect(asked(system, { runId: matched.id, plugin: 'matched' }).map(({ port }) => port)).toEqual([
      'agent/pre-step',
      'agent/request',
    ]);
  });
});
