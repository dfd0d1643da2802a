import {
  AppError,
  failureCodeOf,
  type HookRecord,
  isAppError,
  type JsonObject,
  type OnBusy,
  type Principal,
  type RunConfig,
  type TraceContext,
} from '@codedock/domain';
import { hookFailure, type InputDecision, type InputEvent } from '@codedock/hooks';
import type { PendingLimits, RunView, Session } from '@codedock/store';
import { afterCommit } from './after-commit.js';
import { cancelRun } from './cancel-run.js';
import { type OpenGate, openGate } from './open-gate.js';
import type { RunPorts } from './ports.js';

/** Input to a session, after the request was authorised and its shape validated. */
export interface StartRun {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly content: string;
  readonly mode?: string;
  /** Default `reject`. */
  readonly onBusy?: OnBusy;
  readonly metadata?: JsonObject;
  /** The API key. */
  readonly actor: { readonly id: string; readonly name: string };
  readonly requestId: string;
  /** The trace the run belongs to; called once, when the input has passed its gate. */
  readonly trace: () => TraceContext;
  /** How many runs may be pending; absent: any number. */
  readonly limits?: PendingLimits;
  /** The claim that covers this request. */
  readonly idempotency?: { readonly route: string; readonly key: string; readonly ownerToken: string };
  /**
   * The request's own validation and the run's configuration for a content and mode. Throws an AppError that names the
   * path; called for the request's values before the gate, and again for values the gate changed.
   */
  readonly configure: (input: InputEvent) => RunConfig | Promise<RunConfig>;
}

/** `handled`: a hook dealt with the input and nothing was created or cancelled. */
export type StartedRun = { readonly kind: 'handled' } | { readonly kind: 'started'; readonly run: RunView };

/**
 * Asks `beforeInput`, then accepts the input as a run in one transaction, then publishes and rings. Before the gate has
 * answered nothing is written, inserted or interrupted. Throws not_found, session_archived, session_busy, rate_limited (too
 * many pending runs), hook_blocked,
 * gate_timeout or gate_unavailable (could not ask), hook_error, idempotency_in_progress, and what `configure` throws.
 */
export async function startRun(ports: RunPorts, input: StartRun, signal: AbortSignal): Promise<StartedRun> {
  const session = await ports.store.sessions.get(input.tenantId, input.sessionId);
  if (session.status === 'archived') {
    throw new AppError('session_archived', `Session ${session.id} is archived and takes no input; create another.`);
  }
  const asked: InputEvent = { content: input.content, ...(input.mode === undefined ? {} : { mode: input.mode }) };
  const config = await input.configure(asked);
  const gate = openGate(
    { tenantId: input.tenantId, sessionId: input.sessionId, requestId: input.requestId },
    principalOf(input, session, config),
    {},
    signal,
    'beforeInput',
  );
  const passed = await askInput(ports, input, gate, asked, config);
  if (passed === 'handled') {
    await storeRecords(ports, gate);
    if (input.idempotency !== undefined) {
      const body = { handled: true, runId: null, run: null };
      const { idempotency, tenantId } = input;
      await ports.store.idempotency.complete({ tenantId, ...idempotency, response: { status: 200, body } });
    }
    return { kind: 'handled' };
  }
  return { kind: 'started', run: await acceptInput(ports, input, session, gate, passed) };
}

interface PassedInput {
  readonly event: InputEvent;
  readonly config: RunConfig;
}

async function askInput(
  ports: RunPorts,
  input: StartRun,
  gate: OpenGate,
  asked: InputEvent,
  config: RunConfig,
): Promise<PassedInput | 'handled'> {
  const hook = ports.hooks.beforeInput;
  if (hook === undefined) return { event: asked, config };
  let decision: Awaited<ReturnType<typeof hook>>;
  try {
    decision = await hook(asked, gate.call);
  } catch (error) {
    await storeRecords(ports, gate);
    throw isAppError(error) ? error : hookFailure('beforeInput', error);
  }
  switch (decision.kind) {
    case 'continue':
      return { event: asked, config };
    case 'handled':
      return 'handled';
    case 'block':
      await refuse(ports, gate, { outcome: 'blocked', by: decision.by, reason: decision.reason });
      throw new AppError(
        'hook_blocked',
        decision.reason,
        decision.by === undefined ? {} : { extra: { by: decision.by } },
      );
    case 'could_not_ask':
      await refuse(ports, gate, {
        outcome: decision.code === 'gate_timeout' ? 'timeout' : 'unreachable',
        by: decision.by,
        reason: decision.reason,
      });
      throw new AppError(
        decision.code,
        decision.reason,
        decision.by === undefined ? {} : { extra: { by: decision.by } },
      );
    case 'transform':
      return changedInput(ports, input, gate, asked, decision);
  }
}

/** Changed values must pass what the request itself had to pass; else the hook's answer is invalid, which is a failure. */
async function changedInput(
  ports: RunPorts,
  input: StartRun,
  gate: OpenGate,
  asked: InputEvent,
  decision: Extract<InputDecision, { kind: 'transform' }>,
): Promise<PassedInput> {
  const mode = decision.mode ?? asked.mode;
  const event: InputEvent = { content: decision.content ?? asked.content, ...(mode === undefined ? {} : { mode }) };
  try {
    return { event, config: await input.configure(event) };
  } catch (error) {
    if (!isAppError(error)) throw error;
    const by = gate.call.records.findLast((record) => record.outcome === 'changed')?.hook;
    const reason = `The input as changed by ${by ?? 'a hook'} is not valid: ${error.message}`;
    gate.call.record(hostRecord('invalid', by ?? 'host', reason));
    await storeRecords(ports, gate);
    throw new AppError('gate_unavailable', reason, { cause: error, ...(by === undefined ? {} : { extra: { by } }) });
  }
}

async function acceptInput(
  ports: RunPorts,
  input: StartRun,
  session: Session,
  gate: OpenGate,
  { event, config }: PassedInput,
): Promise<RunView> {
  const runId = ports.ids.next();
  const accepted = await ports.store.runs.accept({
    tenantId: input.tenantId,
    sessionId: input.sessionId,
    runId,
    message: {
      id: ports.ids.next(),
      sessionId: input.sessionId,
      runId,
      role: 'user',
      content: { text: event.content },
      eventSeq: 0,
      createdAt: new Date(ports.clock.now()).toISOString(),
    },
    config,
    principal: principalOf(input, session, config),
    onBusy: input.onBusy ?? 'reject',
    createdBy: input.actor.id,
    metadata: input.metadata ?? {},
    scratchpad: gate.scratchpad(),
    records: gate.sitedRecords(),
    requestId: input.requestId,
    eventId: ports.ids.next(),
    trace: input.trace(),
    ...(input.limits === undefined ? {} : { limits: input.limits }),
    ...(input.idempotency === undefined
      ? {}
      : { idempotency: { ...input.idempotency, status: 201, body: { handled: false, runId } } }),
  });
  await afterCommit(ports, {
    events: accepted.events,
    rings: accepted.ring === undefined ? [] : [accepted.ring],
  });
  if (accepted.interrupted !== undefined) interrupt(ports, input.tenantId, accepted.interrupted);
  return accepted.run;
}

/** The flag is committed already; ending the run is nobody's wait, and the reconciler's should this process die. */
function interrupt(ports: RunPorts, tenantId: string, runId: string): void {
  cancelRun(ports, { tenantId, runId, actor: 'host' }).catch((error: unknown) => {
    ports.report({ kind: 'cancel_failed', runId, error });
  });
}

function principalOf(input: StartRun, session: Session, config: RunConfig): Principal {
  return {
    tenant: input.tenantId,
    key: input.actor.name,
    ...(session.user === undefined ? {} : { actor: session.user }),
    agent: config.name,
    ...(config.mode === undefined ? {} : { mode: config.mode }),
    metadata: { ...session.metadata, ...input.metadata },
  };
}

async function refuse(
  ports: RunPorts,
  gate: OpenGate,
  refusal: { outcome: HookRecord['outcome']; by: string | undefined; reason: string },
): Promise<void> {
  // Plugins leave a line of their own; a hook of this process, or a host that was not reached, may leave none.
  const told = gate.call.records.some(({ outcome }) =>
    refusal.outcome === 'blocked' ? outcome === 'blocked' : failureCodeOf(outcome) !== undefined,
  );
  if (!told) {
    gate.call.record(hostRecord(refusal.outcome, refusal.by ?? 'host', refusal.reason));
  }
  await storeRecords(ports, gate);
}

async function storeRecords(ports: RunPorts, gate: OpenGate): Promise<void> {
  const records = gate.sitedRecords();
  if (records.length > 0) await ports.store.audit.insert(records);
}

function hostRecord(outcome: HookRecord['outcome'], hook: string, reason: string): HookRecord {
  return { gate: 'beforeInput', hook, outcome, reason, startedMs: 0, durationMs: 0, queueMs: 0 };
}
