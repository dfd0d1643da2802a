import { randomUUID } from 'node:crypto';
import {
  AppError,
  type JsonValue,
  type LedgerEvent,
  type LiveBus,
  type Message,
  type RunConfig,
  type RunStatus,
} from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { FakeStep } from '@codedock/models';
import { createLogger, Shutdown } from '@codedock/platform';
import { createDoorbell, createLiveBus, type DoorbellConnection, prepareQueueSchema } from '@codedock/queue';
import type { RunView, Store } from '@codedock/store';
import {
  createTestStore,
  describeWithRedis,
  eventually,
  requireRedis,
  TEST_CONFIG,
  type TestTenant,
  testEvent,
  testTenant,
} from '@codedock/testkit';
import { Worker } from 'bullmq';
import { Client } from 'pg';
import { readRunnerConfig } from './config.js';
import { type Runner, type StartRunner, startRunner } from './runner.js';
import type { LocalTool } from './tools/tool-registry.js';

const logger = createLogger({ app: 'runner', level: 'silent', format: 'json' });
const TERMINAL: readonly RunStatus[] = ['completed', 'failed', 'cancelled', 'timed_out', 'blocked'];

/** Tools of the tests; each counts its executions. */
function testTools() {
  const calls: { name: string; args: JsonValue; key: string }[] = [];
  const tool = (
    name: string,
    output: () => Promise<JsonValue>,
    more: Partial<LocalTool['definition']> = {},
  ): LocalTool => ({
    definition: {
      name,
      description: name,
      parameters: { type: 'object' },
      requiresApproval: false,
      effect: 'effectful',
      timeoutMs: 10_000,
      schemaDigest: name,
      ...more,
    },
    call: async (args, { idempotencyKey }) => {
      calls.push({ name, args, key: idempotencyKey });
      return { output: await output() };
    },
  });
  return {
    calls,
    tools: [
      tool('deploy', async () => 'deployed', { requiresApproval: true }),
      tool('dirty', async () => ({ 'k\0': 'a\ud800b' })),
      tool('stuck', () => new Promise(() => {})),
      tool('again', async () => 'again', { effect: 'pure' }),
    ],
  };
}

function suite(queue: (databaseUrl: string) => Promise<string>): void {
  let store: Store;
  let databaseUrl: string;
  let closeStore: () => Promise<void>;
  let tenant: TestTenant;
  let queueUrl: string;
  let doorbell: DoorbellConnection;
  let bus: LiveBus;
  const shutdowns: Shutdown[] = [];

  beforeAll(async () => {
    const opened = await createTestStore();
    ({ store, url: databaseUrl, close: closeStore } = opened);
    queueUrl = await queue(databaseUrl);
    tenant = await testTenant(store);
    doorbell = await createDoorbell(queueUrl);
    bus = await createLiveBus({ queueUrl, directUrl: databaseUrl });
  });
  afterEach(async () => {
    await Promise.all(shutdowns.splice(0).map((shutdown) => shutdown.run('the test is over')));
  });
  afterAll(async () => {
    await bus?.close();
    await doorbell?.close();
    await closeStore?.();
  });

  interface Started {
    readonly runner: Runner;
    stop(): Promise<boolean>;
    readonly calls: ReturnType<typeof testTools>['calls'];
  }

  async function runner(
    environment: Record<string, string> = {},
    hooks: Hooks = {},
    around: StartRunner['around'] = (parts) => parts,
  ): Promise<Started> {
    const shutdown = new Shutdown({ logger, exit: () => undefined });
    shutdowns.push(shutdown);
    const config = readRunnerConfig({
      DATABASE_URL: databaseUrl,
      QUEUE_URL: queueUrl,
      CODEDOCK_RUNNER_HEALTH_LISTEN: '127.0.0.1:0',
      RUNNER_DRAIN_TIMEOUT: '0s',
      ...environment,
    });
    const { calls, tools } = testTools();
    const started = await startRunner({ config, logger, shutdown, hooks, tools, around });
    return { runner: started, calls, stop: () => shutdown.run('stopped by the test') };
  }

  const TOOLS = ['ping', 'deploy', 'dirty', 'stuck', 'again', 'memory_write', 'memory_read'];

  async function accept(script: readonly FakeStep[] | string, config: Partial<RunConfig> = {}) {
    const sessionId = await tenant.session();
    const text = typeof script === 'string' ? script : `fake:${JSON.stringify(script)}`;
    const runId = randomUUID();
    const message: Message = {
      id: randomUUID(),
      sessionId,
      runId,
      role: 'user',
      content: { text },
      eventSeq: 0,
      createdAt: new Date(0).toISOString(),
    };
    const accepted = await tenant.accept(sessionId, {
      runId,
      message,
      config: { ...TEST_CONFIG, tools: TOOLS, ...config },
    });
    return { sessionId, runId, ring: accepted.ring };
  }

  async function start(script: readonly FakeStep[] | string, config: Partial<RunConfig> = {}) {
    const { ring, ...run } = await accept(script, config);
    if (ring !== undefined) await doorbell.ring(ring);
    return run;
  }

  const view = (runId: string): Promise<RunView> => store.runs.get(tenant.tenantId, runId);
  const inState = (runId: string, ...statuses: RunStatus[]) =>
    eventually(async () => {
      const run = await view(runId);
      if (!statuses.includes(run.status)) throw new Error(`it is ${run.status}`);
      return run;
    });
  const ended = (runId: string) => inState(runId, ...TERMINAL);
  const events = (sessionId: string): Promise<LedgerEvent[]> =>
    store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 1_000 });
  const types = async (sessionId: string) => (await events(sessionId)).map(({ type }) => type);
  const messages = (sessionId: string) => store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 100 });
  const running = async (sessionId: string, type: LedgerEvent['type']) =>
    eventually(async () => expect(await types(sessionId)).toContain(type));

  it('executes a run from its ring to its end, in few statements', async () => {
    await runner();
    const { sessionId, runId, ring } = await accept('Hello there');
    const end = new Promise<void>((resolve) => {
      void bus.subscribe(sessionId, ({ events: pushed }) => {
        if (pushed?.some(({ type }) => type === 'run.completed')) resolve();
      });
    });
    const statements: string[] = [];
    const query = Client.prototype.query;
    const spied = jest.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...args: unknown[]) {
      const text = typeof args[0] === 'string' ? args[0] : ((args[0] as { text?: string }).text ?? '');
      if (/codedock_(?!live)|runs /.test(text)) statements.push(text);
      return (query as (...all: unknown[]) => unknown).apply(this, args);
    } as never);
    if (ring !== undefined) await doorbell.ring(ring);
    await end;
    spied.mockRestore();
    expect(await view(runId)).toMatchObject({ status: 'completed', stopReason: 'completed', turns: 1, attempt: 1 });
    const stored = await events(sessionId);
    expect(stored.map(({ seq }) => seq)).toEqual(stored.map((_, index) => index + 1));
    expect(stored.map(({ type }) => type).filter((type) => type !== 'assistant.delta')).toEqual([
      'run.created',
      'run.state_changed',
      'run.started',
      'turn.started',
      'assistant.started',
      'assistant.completed',
      'turn.usage_recorded',
      'turn.completed',
      'run.completed',
    ]);
    expect(stored.flatMap((event) => (event.type === 'assistant.delta' ? [event.payload.text] : [])).join('')).toBe(
      'You said: Hello there',
    );
    expect((await messages(sessionId)).map(({ role, content }) => [role, content])).toEqual([
      ['user', { text: 'Hello there' }],
      ['assistant', { text: 'You said: Hello there' }],
    ]);
    // Lease and end, and facts where the model takes its time; accepting it was one more.
    expect(statements.length).toBeLessThanOrEqual(3);
  });

  it('executes tool calls, tells the model, and goes on', async () => {
    const { calls } = await runner();
    const { sessionId, runId } = await start([
      {
        text: 'calling',
        toolCalls: [
          { name: 'again', arguments: { n: 1 } },
          { name: 'ping', arguments: { wrong: 1 } },
          { name: 'nope' },
        ],
      },
      { text: 'all done' },
    ]);
    expect(await ended(runId)).toMatchObject({ status: 'completed', turns: 2, toolCalls: 3 });
    expect(calls).toMatchObject([{ name: 'again', args: { n: 1 } }]);
    const results = (await messages(sessionId))
      .filter(({ role }) => role === 'tool')
      .map(({ content }) => JSON.stringify(content));
    expect(results).toHaveLength(3);
    expect(results.join()).toContain('again');
    expect(results.join()).toContain('/wrong is not known');
    expect(results.join()).toContain('no tool');
    const calledTools = await store.toolCalls.list(tenant.tenantId, runId);
    expect(calledTools.map(({ name, state }) => [name, state])).toEqual([
      ['again', 'succeeded'],
      ['ping', 'failed'],
      ['nope', 'failed'],
    ]);
  });

  it('remembers through the memory tools', async () => {
    await runner();
    const { sessionId, runId } = await start([
      { toolCalls: [{ name: 'memory_write', arguments: { name: 'colour', text: 'blue' } }] },
      { toolCalls: [{ name: 'memory_read', arguments: { name: 'colour' } }] },
    ]);
    await ended(runId);
    const read = (await messages(sessionId)).filter(({ role }) => role === 'tool').at(-1);
    expect(read?.content).toMatchObject({ output: { name: 'colour', text: 'blue' } });
  });

  it('stores what no database takes as replacement characters', async () => {
    await runner();
    const { sessionId, runId } = await start([
      { chunks: ['a\0', 'b\ud800'], toolCalls: [{ name: 'dirty' }] },
      { text: 'ok' },
    ]);
    expect(await ended(runId)).toMatchObject({ status: 'completed' });
    const stored = await messages(sessionId);
    expect(stored[1]?.content).toEqual({ text: 'a\ufffdb\ufffd' });
    expect(stored[2]?.content).toMatchObject({ output: { 'k\ufffd': 'a\ufffdb' } });
  });

  // Pushed, the heartbeats that would find what is stored come later than the test may take.
  it.each([
    ['pushed', { CODEDOCK_LEASE_HEARTBEAT: '60s', CODEDOCK_LEASE_TTL: '120s' }],
    ['stored only', { CODEDOCK_LEASE_HEARTBEAT: '200ms' }],
  ])('ends at a cancel that is %s, while the model hangs', async (how, environment: Record<string, string>) => {
    await runner(environment);
    const { sessionId, runId } = await start([{ text: 'wait', hang: true, ignoreAbort: true }]);
    await running(sessionId, 'assistant.delta');
    await store.runs.requestCancel({ tenantId: tenant.tenantId, runId, actor: 'test' });
    if (how === 'pushed') bus.publishCancel({ runId });
    expect(await ended(runId)).toMatchObject({ status: 'cancelled', stopReason: 'cancelled' });
  });

  it('ends at a cancel while a tool hangs, whose outcome is unknown', async () => {
    await runner();
    const { sessionId, runId } = await start([{ toolCalls: [{ name: 'stuck' }] }]);
    await running(sessionId, 'tool.execution_started');
    await store.runs.requestCancel({ tenantId: tenant.tenantId, runId, actor: 'test' });
    bus.publishCancel({ runId });
    await ended(runId);
    expect(await types(sessionId)).toContain('tool.outcome_unknown');
    expect((await store.toolCalls.list(tenant.tenantId, runId))[0]?.state).toBe('unknown');
  });

  it('ends a run that takes longer than its limit', async () => {
    await runner();
    const { runId } = await start([{ hang: true }], { limits: { ...TEST_CONFIG.limits, wallTimeMs: 300 } });
    expect(await ended(runId)).toMatchObject({ status: 'timed_out', stopReason: 'timeout' });
  });

  it('stops, and writes nothing more, when another takes the lease', async () => {
    const started = await runner({ CODEDOCK_LEASE_HEARTBEAT: '100ms' });
    const { sessionId, runId } = await start([{ text: 'wait', hang: true }]);
    await running(sessionId, 'assistant.delta');
    const fenced = await store.runs.fence(runId, { running: true });
    expect(fenced).toBeDefined();
    const before = (await events(sessionId)).length;
    await eventually(() => expect(started.runner.consumer.active).toBe(0));
    expect(await events(sessionId)).toHaveLength(before);
    expect(await view(runId)).toMatchObject({ status: 'running' });
  });

  it('waits for approval without a lease, then executes once', async () => {
    const { calls, runner: started } = await runner();
    const { sessionId, runId } = await start([
      { toolCalls: [{ name: 'deploy', arguments: { to: 'prod' } }] },
      { text: 'shipped' },
    ]);
    const waiting = await inState(runId, 'waiting_approval');
    await eventually(() => expect(started.consumer.active).toBe(0));
    expect(calls).toHaveLength(0);
    const approval = await store.approvals.get(tenant.tenantId, String(waiting.approvalId));
    expect(approval.calls).toMatchObject([{ tool: 'deploy', arguments: { to: 'prod' }, reasons: [{ by: 'tool' }] }]);
    const { ring } = await tenant.decide(
      approval.id,
      approval.calls.map(({ callId }) => callId),
    );
    if (ring !== undefined) await doorbell.ring(ring);
    expect(await ended(runId)).toMatchObject({ status: 'completed' });
    expect(calls).toMatchObject([{ name: 'deploy', args: { to: 'prod' } }]);
    expect((await types(sessionId)).filter((type) => type === 'tool.execution_started')).toHaveLength(1);
  });

  it('hands back on a drain what does not end in time, and another runner goes on with it', async () => {
    const first = await runner({ RUNNER_DRAIN_TIMEOUT: '100ms' });
    const { sessionId, runId } = await start([{ text: 'part', hang: true }]);
    await running(sessionId, 'assistant.delta');
    expect(await first.stop()).toBe(true);
    const handed = await view(runId);
    expect(handed).toMatchObject({ status: 'queued', attempt: 1 });
    await runner();
    await running(sessionId, 'turn.restarted');
    expect(await view(runId)).toMatchObject({ status: 'running', attempt: 2 });
    bus.publishCancel({ runId });
    await ended(runId);
  });

  it('lets the turn in work finish on a drain, and starts no other', async () => {
    const first = await runner({ RUNNER_DRAIN_TIMEOUT: '10s' });
    const { sessionId, runId } = await start([{ delayMs: 400, toolCalls: [{ name: 'ping' }] }, { text: 'second' }]);
    await running(sessionId, 'turn.started');
    expect(await first.stop()).toBe(true);
    expect(await view(runId)).toMatchObject({ status: 'queued', turns: 1 });
    expect(await types(sessionId)).toContain('turn.completed');
    const { calls } = await runner();
    expect(await ended(runId)).toMatchObject({ status: 'completed', turns: 2 });
    expect(calls).toHaveLength(0);
  });

  describe('a run whose runner died', () => {
    /** A runner that stored this much and then was gone. */
    async function left(effect: 'pure' | 'effectful', name: string) {
      const run = await accept('go on', {
        model: { provider: 'fake', name: 'fake', options: { script: [{ text: 'unused' }, { text: 'recovered' }] } },
      });
      const snapshot = await tenant.lease(run.runId, 500);
      const [turnId, callId] = [randomUUID(), randomUUID()];
      const reply: Message = {
        id: randomUUID(),
        sessionId: run.sessionId,
        runId: run.runId,
        turnId,
        role: 'assistant',
        content: { text: '' },
        toolCalls: [{ id: callId, name, arguments: {} }],
        eventSeq: 0,
        createdAt: new Date(0).toISOString(),
      };
      const completed = testEvent('assistant.completed', { message: reply, finishReason: 'tool_calls' }, turnId);
      await store.ledger.append({
        tenantId: tenant.tenantId,
        sessionId: run.sessionId,
        run: { runId: run.runId, token: snapshot.attempt },
        events: [testEvent('turn.started', { iteration: 1, tools: TOOLS }, turnId), completed],
        changes: {
          turns: [{ id: turnId, iteration: 1, status: 'replied', tools: TOOLS }],
          messages: [{ message: reply, eventId: completed.eventId }],
          calls: [{ id: callId, turnId, index: 0, name, arguments: {}, effect, state: 'executing' }],
          executions: [{ callId, n: 1, state: 'executing' }],
          run: { start: { systemPrompt: 's', hidden: [] }, turns: 1, toolCalls: 1 },
        },
      });
      await eventually(async () => {
        const { rings } = await store.runs.due();
        const ring = rings.find(({ runId }) => runId === run.runId);
        if (ring === undefined) return false;
        await doorbell.ring(ring);
        return true;
      });
      return { ...run, callId };
    }

    it('executes a pure call again under the same key', async () => {
      const { calls } = await runner();
      const { runId, callId } = await left('pure', 'again');
      expect(await ended(runId)).toMatchObject({ status: 'completed', attempt: 2, turns: 2 });
      expect(calls).toMatchObject([{ name: 'again', key: callId }]);
    });

    it('executes no effectful call again, and tells the model so', async () => {
      const { calls } = await runner();
      const { sessionId, runId } = await left('effectful', 'dirty');
      expect(await ended(runId)).toMatchObject({ status: 'completed' });
      expect(calls).toHaveLength(0);
      const told = (await messages(sessionId)).find(({ role }) => role === 'tool');
      expect(JSON.stringify(told?.content)).toContain('unknown');
    });
  });

  it('ends a run that dies again and again', async () => {
    await runner();
    const { runId } = await accept('hello');
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      await eventually(async () => (await store.runs.takeLease(runId, 1)).kind === 'leased');
    }
    await eventually(async () => {
      await doorbell.ring({ runId, doorbell: Date.now() % 1_000_000, priority: 1, trace: {} });
      return TERMINAL.includes((await view(runId)).status);
    });
    expect(await view(runId)).toMatchObject({ status: 'failed', stopReason: 'crash_loop' });
  });

  it('tells in-process hooks of the end once, with what the loop saw', async () => {
    const seen: unknown[] = [];
    await runner({}, { onRunEnd: ({ status }, { loop }) => void seen.push([status, loop?.messages.length]) });
    const { runId } = await start('hi');
    await ended(runId);
    await eventually(() => expect(seen).toEqual([['completed', 2]]));
  });

  it('takes no runs while the plugins cannot be asked', async () => {
    const started = await runner({ PLUGIN_HOST_URL: '127.0.0.1:1', CODEDOCK_INTERNAL_TOKEN: 'x'.repeat(32) });
    expect(started.runner.consumer.taking).toBe(false);
    const ready = await fetch(`http://127.0.0.1:${started.runner.healthPort}/readyz`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ checks: { plugins: expect.stringContaining('plugins') } });
    const { runId } = await start('hi');
    expect(await view(runId)).toMatchObject({ status: 'queued' });
    await started.stop();
    await runner();
    expect(await ended(runId)).toMatchObject({ status: 'completed' });
  });

  it('gives rings back while the database cannot be asked, and takes runs again by itself', async () => {
    let reachable = false;
    let refused = 0;
    const reach = () => {
      if (!reachable) throw new AppError('store_unavailable', 'away');
    };
    await runner({ CODEDOCK_RUNNER_CONCURRENCY: '1' }, {}, (parts) => {
      const { ready, runs } = parts.store;
      const takeLease: Store['runs']['takeLease'] = async (...of) => {
        if (!reachable) refused += 1;
        reach();
        return runs.takeLease(...of);
      };
      const asked = async () => {
        reach();
        await ready();
      };
      return { ...parts, store: { ...parts.store, ready: asked, runs: { ...runs, takeLease } } };
    });
    const runIds = [(await start('hi')).runId];
    await eventually(() => refused === 1);
    for (let n = 0; n < 3; n += 1) runIds.push((await start('hi')).runId);
    const other = await runner();
    for (const runId of runIds) expect(await ended(runId)).toMatchObject({ status: 'completed' });
    expect(refused).toBe(1);
    await other.stop();
    reachable = true;
    expect(await ended((await start('hi')).runId)).toMatchObject({ status: 'completed' });
  });

  it('is not ready while it takes nothing from the queue, and takes runs again by itself', async () => {
    const loops = jest.spyOn(Worker.prototype, 'run').mockRejectedValue(new Error('the loop broke'));
    try {
      const { runner: started } = await runner();
      const answer = (path: string) => fetch(`http://127.0.0.1:${started.healthPort}/${path}`);
      await eventually(async () => {
        const ready = await answer('readyz');
        expect(ready.status).toBe(503);
        expect(await ready.json()).toMatchObject({ checks: { queue: expect.stringContaining('the loop broke') } });
      });
      expect((await answer('healthz')).status).toBe(200);
      const { runId } = await start('hi');
      loops.mockRestore();
      expect(await ended(runId)).toMatchObject({ status: 'completed' });
      await eventually(async () => expect((await answer('readyz')).status).toBe(200));
    } finally {
      loops.mockRestore();
    }
  });

  it('is healthy and ready while it takes runs', async () => {
    const { runner: started } = await runner();
    for (const path of ['healthz', 'readyz']) {
      expect((await fetch(`http://127.0.0.1:${started.healthPort}/${path}`)).status).toBe(200);
    }
  });
}

describe('the runner on PostgreSQL alone', () => {
  suite(async (databaseUrl) => {
    await prepareQueueSchema(databaseUrl);
    return databaseUrl;
  });
});

describeWithRedis('the runner with Redis', () => {
  suite(async () => (await requireRedis()).url);
});
