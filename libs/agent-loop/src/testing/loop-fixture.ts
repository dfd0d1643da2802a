import { NO_USAGE, type RunConfig, type RunSnapshot } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { LoopPorts } from '../loop-ports.js';
import type { LoopResult } from '../loop-result.js';
import { runLoop } from '../run-loop.js';
import { type BeforeFact, MemoryLedger } from './memory-ledger.js';
import { MemoryTools, type TestTool } from './memory-tools.js';
import { type ModelStep, ScriptedModel } from './scripted-model.js';

export interface FixtureOptions {
  readonly script?: readonly ModelStep[];
  readonly tools?: readonly TestTool[];
  readonly hooks?: Hooks;
  readonly config?: Partial<RunConfig>;
  readonly snapshot?: Partial<RunSnapshot>;
  readonly ports?: Partial<LoopPorts>;
  readonly before?: BeforeFact;
}

const CONFIG: RunConfig = {
  name: 'agent',
  systemPrompt: 'base prompt',
  model: { provider: 'fake', name: 'fake' },
  tools: [],
  deniedTools: [],
  approvalMode: 'manual',
  creatorMayApprove: true,
  limits: { maxTurns: 10, maxToolCalls: 20, wallTimeMs: 60_000, maxParallelTools: 4 },
  retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 15 },
  holdDeltas: false,
};

/** A run's first snapshot: one user message. */
export function firstSnapshot(options: Pick<FixtureOptions, 'config' | 'snapshot'> = {}): RunSnapshot {
  return {
    runId: 'run',
    sessionId: 'session',
    tenantId: 'tenant',
    attempt: 1,
    config: { ...CONFIG, ...options.config },
    principal: { tenant: 'tenant', key: 'key', agent: 'agent', metadata: {} },
    turns: 0,
    toolCalls: 0,
    usage: NO_USAGE,
    messages: [
      {
        id: 'user-message',
        sessionId: 'session',
        runId: 'run',
        role: 'user',
        content: { text: 'hello' },
        eventSeq: 1,
        createdAt: '2024-01-01T00:00:00.000Z',
      },
    ],
    scratchpad: {},
    metadata: {},
    cancelRequested: false,
    elapsedMs: 0,
    ...options.snapshot,
  };
}

/** The loop over in-memory ports: one attempt after the other over the same ledger, model and tools. */
export function loopFixture(options: FixtureOptions = {}) {
  const journal: string[] = [];
  const sleeps: number[] = [];
  const reported: { error: unknown; where: string }[] = [];
  const ledger = new MemoryLedger(firstSnapshot(options), journal, options.before);
  const model = new ScriptedModel(options.script ?? [], journal);
  const tools = new MemoryTools(options.tools ?? [], journal);
  const policies = { version: 'v1', draining: false };
  let ids = 0;
  let time = Date.parse('2024-01-01T00:00:00.000Z');
  const ports: LoopPorts = {
    ledger,
    model,
    tools,
    gateVersionOf: () => policies.version,
    clock: {
      now: () => {
        time += 1;
        return time;
      },
      sleep: async (ms) => {
        sleeps.push(ms);
      },
    },
    ids: {
      next: () => {
        ids += 1;
        return `id-${ids}`;
      },
    },
    digest: (text) => text,
    drainRequested: () => policies.draining,
    report: (error, where) => void reported.push({ error, where }),
    ...options.ports,
  };
  let attempts = options.snapshot?.attempt ?? 1;
  return {
    journal,
    sleeps,
    reported,
    ledger,
    model,
    tools,
    policies,
    /** Runs the next attempt, from what is stored. */
    async run(
      signal: AbortSignal = new AbortController().signal,
      hooks: Hooks = options.hooks ?? {},
    ): Promise<LoopResult> {
      const result = await runLoop(ledger.snapshot(attempts), hooks, ports, signal);
      attempts += 1;
      await ledger.idle();
      return result;
    },
    /** What the model was shown of the calls of the last request. */
    told: (request = model.requests.length - 1) =>
      (model.requests[request]?.messages ?? []).flatMap(({ content }) => ('callId' in content ? [content.output] : [])),
  };
}
