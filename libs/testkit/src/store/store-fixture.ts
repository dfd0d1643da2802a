import { randomUUID } from 'node:crypto';
import {
  type EffectClass,
  type HookRecord,
  type Message,
  type NewLedgerEvent,
  type OnBusy,
  type RunConfig,
  type RunEnd,
  type RunSnapshot,
  runEnd,
} from '@codedock/domain';
import { type AcceptedRun, type AcceptRun, type AppendBatch, type Left, openStore, type Store } from '@codedock/store';
import { createTestDatabase } from '../services/index.js';

/** A configuration that asks nothing of anybody. */
export const TEST_CONFIG: RunConfig = {
  name: 'test',
  systemPrompt: 'You are a test.',
  model: { provider: 'fake', name: 'fake' },
  tools: ['ping'],
  deniedTools: [],
  approvalMode: 'manual',
  creatorMayApprove: true,
  limits: { maxTurns: 10, maxToolCalls: 10, wallTimeMs: 60_000, maxParallelTools: 4 },
  retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 20 },
  holdDeltas: false,
};

/** The seal under which the calls of `turnWithCalls` were gated. */
export const TEST_SEAL = { digest: 'digest', gateVersion: 'version' } as const;

export interface TestRun {
  readonly runId: string;
  readonly sessionId: string;
}

/** An audit line as a plugin's answer leaves it. */
export function testRecord(overrides: Partial<HookRecord> = {}): HookRecord {
  return {
    gate: 'beforeInput',
    port: 'agent/input',
    hook: 'redact',
    outcome: 'continued',
    startedMs: 0,
    durationMs: 1.5,
    queueMs: 0,
    ...overrides,
  };
}

/** A tenant of a test and short ways to act in it. Everything goes through the store's public functions. */
export class TestTenant {
  readonly keyId = randomUUID();

  constructor(
    readonly store: Store,
    readonly tenantId: string,
  ) {}

  async session(): Promise<string> {
    const session = await this.store.sessions.create({
      tenantId: this.tenantId,
      id: randomUUID(),
      metadata: {},
      createdBy: this.keyId,
    });
    return session.id;
  }

  accept(sessionId: string, overrides: Partial<AcceptRun> & { onBusy?: OnBusy } = {}): Promise<AcceptedRun> {
    const runId = overrides.runId ?? randomUUID();
    const message: Message = {
      id: randomUUID(),
      sessionId,
      runId,
      role: 'user',
      content: { text: 'hello' },
      eventSeq: 0,
      createdAt: new Date(0).toISOString(),
    };
    return this.store.runs.accept({
      tenantId: this.tenantId,
      sessionId,
      message,
      config: TEST_CONFIG,
      principal: { tenant: this.tenantId, key: 'test', agent: 'test', metadata: {} },
      onBusy: 'reject',
      createdBy: this.keyId,
      metadata: {},
      scratchpad: {},
      records: [],
      requestId: 'request',
      eventId: randomUUID(),
      trace: {},
      ...overrides,
      runId,
    });
  }

  /** Takes the lease of a run that is due; fails when there is nothing to take. */
  async lease(runId: string, ttlMs = 15_000): Promise<RunSnapshot> {
    const taken = await this.store.runs.takeLease(runId, ttlMs);
    if (taken.kind !== 'leased') throw new Error(`run ${runId}: the lease gave ${taken.kind}`);
    return taken.snapshot;
  }

  /** A batch of one delta. */
  delta(sessionId: string, run: AppendBatch['run'], text = 'x'): AppendBatch {
    return {
      tenantId: this.tenantId,
      sessionId,
      ...(run === undefined ? {} : { run }),
      events: [testEvent('assistant.delta', { text })],
    };
  }

  /** A turn with gated calls, as a model's reply and its gate leave it. */
  async turnWithCalls(
    run: TestRun,
    token: number,
    count: number,
    effect: EffectClass = 'effectful',
  ): Promise<{ readonly turnId: string; readonly callIds: readonly string[] }> {
    const turnId = randomUUID();
    const callIds = Array.from({ length: count }, () => randomUUID());
    await this.store.ledger.append({
      tenantId: this.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token },
      events: [testEvent('turn.started', { iteration: 1, tools: ['ping'] }, turnId)],
      changes: {
        turns: [{ id: turnId, iteration: 1, status: 'replied', tools: ['ping'] }],
        calls: callIds.map((id, index) => ({
          id,
          turnId,
          index,
          state: 'proposed',
          name: 'ping',
          arguments: { index },
          effect,
          gated: { ...TEST_SEAL, decision: 'ask', reasons: [] },
        })),
      },
    });
    return { turnId, callIds };
  }

  /** Parks a run for approval of these calls. */
  park(
    run: TestRun,
    token: number,
    turn: { readonly turnId: string; readonly callIds: readonly string[] },
    approvalId: string = randomUUID(),
    expiresAt = new Date(Date.now() + 3_600_000),
  ): Promise<Left> {
    return this.store.runs.leave({
      tenantId: this.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token },
      events: [],
      to: {
        kind: 'waiting_approval',
        approval: {
          id: approvalId,
          turnId: turn.turnId,
          expiresAt: expiresAt.toISOString(),
          calls: turn.callIds.map((callId, index) => ({
            callId,
            tool: 'ping',
            arguments: { index },
            ...TEST_SEAL,
            reasons: [{ by: 'tool', reason: 'asks' }],
          })),
        },
      },
    });
  }

  /** One decision for all the given calls, by a key that did not create the run. */
  decide(approvalId: string, callIds: readonly string[], decision: 'approve' | 'deny' = 'approve') {
    return this.store.approvals.decide({
      tenantId: this.tenantId,
      approvalId,
      actor: { id: 'approver', name: 'approver' },
      decisions: callIds.map((callId) => ({ callId, decision })),
      eventIds: { decided: randomUUID(), stateChanged: randomUUID() },
    });
  }

  end(run: TestRun, token: number, end: RunEnd = runEnd('completed')): Promise<Left> {
    return this.store.runs.leave({
      tenantId: this.tenantId,
      sessionId: run.sessionId,
      run: { runId: run.runId, token },
      events: [],
      to: { kind: 'end', end },
    });
  }
}

/** A new event with a fresh id. */
export function testEvent<T extends NewLedgerEvent['type']>(
  type: T,
  payload: Extract<NewLedgerEvent, { type: T }>['payload'],
  turnId?: string,
): NewLedgerEvent {
  return { eventId: randomUUID(), type, payload, ...(turnId === undefined ? {} : { turnId }) } as NewLedgerEvent;
}

/** A store on a database of its own. `close` in `afterAll`. */
export async function createTestStore(
  maxConnections = 20,
): Promise<{ readonly store: Store; readonly url: string; close(): Promise<void> }> {
  const database = await createTestDatabase();
  const store = await openStore({ url: database.url, maxConnections });
  return {
    store,
    url: database.url,
    close: async () => {
      await store.close();
      await database.drop();
    },
  };
}

/** A new tenant, without a cap unless one is given. */
export async function testTenant(store: Store, maxConcurrentRuns?: number): Promise<TestTenant> {
  const id = randomUUID();
  await store.tenants.ensure({
    id,
    name: `tenant-${id}`,
    ...(maxConcurrentRuns === undefined ? {} : { maxConcurrentRuns }),
  });
  return new TestTenant(store, id);
}
