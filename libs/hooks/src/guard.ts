import {
  failureCodeOf,
  type GateCall,
  type HookOutcome,
  type HookRecord,
  isAppError,
  type ScratchpadPatch,
  type TimerClock,
} from '@codedock/domain';
import type { CouldNotAsk } from './could-not-ask.js';
import { isRemoteDecision } from './decision-shape.js';
import type { GateDecision, GateEvent, GateHook } from './gates.js';
import { GATE_POLICIES, type RemoteGateName } from './policy.js';

/** How a remote hook is kept in bounds. */
export interface GuardOptions<G extends RemoteGateName> {
  /** Milliseconds for the whole gate: the caller's own timer. A function is read once per asking. */
  readonly budgetMs: number | ((event: GateEvent<G>, call: GateCall) => number);
  /** Measures the budget. */
  readonly clock: TimerClock;
  /** On a rewrite gate: true when a failure to ask must end like a failed veto gate. Veto gates always fail closed. */
  readonly failClosed?: (event: GateEvent<G>, call: GateCall) => boolean;
}

type Answer<G extends RemoteGateName> =
  | { readonly kind: 'decision'; readonly decision: GateDecision<G> }
  | { readonly kind: 'failed'; readonly outcome: HookOutcome; readonly reason: string }
  | { readonly kind: 'stopped' };

/**
 * The hook, total: whatever a remote hook does – throw, reject, hang, answer late, with a wrong shape or a decision that
 * is none of this gate's – a decision of the right kind comes out within the budget. A failure on a veto gate is
 * `could_not_ask`; on a rewrite gate the input is kept, unless `failClosed` says otherwise. Every failure leaves one
 * audit line of the hook `host`. After the budget the hook's signal is aborted and whatever it still answers, records or
 * merges is dropped.
 */
export function guard<G extends RemoteGateName>(gate: G, hook: GateHook<G>, options: GuardOptions<G>): GateHook<G> {
  return async (event, call) => {
    const started = options.clock.now();
    const answer = await answerWithin(gate, hook, event, call, options);
    if (answer.kind === 'decision') return answer.decision;
    if (answer.kind === 'stopped') return failed(gate, STOPPED, event, call, options);
    call.record({
      gate,
      port: GATE_POLICIES[gate].port,
      hook: 'host',
      outcome: answer.outcome,
      reason: answer.reason,
      startedMs: 0,
      durationMs: Math.max(0, options.clock.now() - started),
      queueMs: 0,
    });
    return failed(gate, couldNotAsk(answer.outcome, answer.reason), event, call, options);
  };
}

// One for all: capturing a stack per gate would cost more than the rest of the guard.
const GATE_OVER = new DOMException('the gate is over', 'AbortError');

const STOPPED: CouldNotAsk = {
  kind: 'could_not_ask',
  code: 'gate_unavailable',
  reason: 'The host stopped asking: the caller gave up.',
};

// One promise, one timer and one signal: this runs at every gate, so it is no composition of races and sleeps.
function answerWithin<G extends RemoteGateName>(
  gate: G,
  hook: GateHook<G>,
  event: GateEvent<G>,
  call: GateCall,
  options: GuardOptions<G>,
): Answer<G> | Promise<Answer<G>> {
  if (call.signal.aborted) return { kind: 'stopped' };
  const budget = budgetOf(event, call, options);
  if (budget === undefined) {
    return { kind: 'failed', outcome: 'not ready', reason: `The host knows no budget for ${gate}.` };
  }
  return new Promise((resolve) => {
    const controller = new AbortController();
    const bounded = new BoundedCall(call, controller.signal);
    const end = (answer: Answer<G>) => {
      if (!bounded.open) return;
      bounded.open = false;
      cancelTimer();
      call.signal.removeEventListener('abort', stop);
      if (answer.kind !== 'decision') controller.abort(call.signal.aborted ? call.signal.reason : GATE_OVER);
      resolve(answer);
    };
    const stop = () => end({ kind: 'stopped' });
    call.signal.addEventListener('abort', stop, { once: true });
    const cancelTimer = options.clock.after(budget, () =>
      end({ kind: 'failed', outcome: 'timeout', reason: `The host got no answer at ${gate} within ${budget} ms.` }),
    );
    try {
      Promise.resolve(hook(event, bounded)).then(
        (value) => end(judged(gate, value)),
        (error: unknown) => end(thrown(gate, error)),
      );
    } catch (error) {
      end(thrown(gate, error));
    }
  });
}

function budgetOf<G extends RemoteGateName>(event: GateEvent<G>, call: GateCall, options: GuardOptions<G>) {
  try {
    return typeof options.budgetMs === 'number' ? options.budgetMs : options.budgetMs(event, call);
  } catch {
    return undefined;
  }
}

function judged<G extends RemoteGateName>(gate: G, value: unknown): Answer<G> {
  try {
    if (isRemoteDecision(gate, value)) return { kind: 'decision', decision: value };
  } catch (error) {
    return thrown(gate, error);
  }
  return { kind: 'failed', outcome: 'invalid', reason: `The host got an answer that is no decision of ${gate}.` };
}

function thrown<G extends RemoteGateName>(gate: G, error: unknown): Answer<G> {
  const timeout = isAppErrorQuietly(error, 'gate_timeout');
  const reason = timeout
    ? `The host ran out of time before every hook at ${gate} was asked.`
    : `The host could not reach the hooks at ${gate}.`;
  return { kind: 'failed', outcome: timeout ? 'not asked' : 'unreachable', reason };
}

/** What was thrown may be anything, even an object whose getters throw. */
function isAppErrorQuietly(error: unknown, code: 'gate_timeout'): boolean {
  try {
    return isAppError(error, code);
  } catch {
    return false;
  }
}

function couldNotAsk(outcome: HookOutcome, reason: string): CouldNotAsk {
  return { kind: 'could_not_ask', code: failureCodeOf(outcome) ?? 'gate_unavailable', reason };
}

function failed<G extends RemoteGateName>(
  gate: G,
  failure: CouldNotAsk,
  event: GateEvent<G>,
  call: GateCall,
  options: GuardOptions<G>,
): GateDecision<G> {
  const keeps = GATE_POLICIES[gate].remoteFailure === 'keep' && !failsClosed(event, call, options);
  return keeps ? ({ kind: 'reply' } as GateDecision<G>) : (failure as GateDecision<G>);
}

/** Not knowing is closed. */
function failsClosed<G extends RemoteGateName>(event: GateEvent<G>, call: GateCall, options: GuardOptions<G>): boolean {
  try {
    return options.failClosed?.(event, call) ?? false;
  } catch {
    return true;
  }
}

/** The call as the hook sees it: what it records or merges once the gate is over is dropped. */
class BoundedCall implements GateCall {
  open = true;
  readonly site: GateCall['site'];
  readonly principal: GateCall['principal'];
  readonly scratchpad: GateCall['scratchpad'];
  readonly loop?: NonNullable<GateCall['loop']>;

  constructor(
    private readonly outer: GateCall,
    readonly signal: AbortSignal,
  ) {
    this.site = outer.site;
    this.principal = outer.principal;
    this.scratchpad = outer.scratchpad;
    if (outer.loop !== undefined) this.loop = outer.loop;
  }

  get records(): readonly HookRecord[] {
    return this.outer.records;
  }

  merge(patch: ScratchpadPatch): void {
    if (this.open) this.outer.merge(patch);
  }

  record(record: HookRecord): void {
    if (this.open) this.outer.record(record);
  }
}
