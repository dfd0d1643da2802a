import { randomUUID } from 'node:crypto';
import {
  type Clock,
  type GateCall,
  HOOK_OUTCOMES,
  type HookOutcome,
  type HookRecord,
  type Principal,
} from '@codedock/domain';
import type { gate, Port } from '@codedock/proto';
import { status } from '@grpc/grpc-js';
import type { CapabilitySigner } from '../capability.js';
import { cutReason, interpretReply, type PortReply } from '../ports/interpret-reply.js';
import type { MatchSubject } from '../ports/match.js';
import { portTable } from '../ports/port-table.js';
import { encodeScratchpad } from '../ports/scratchpad.js';
import type { Replica } from './replica.js';
import type { ReplicaSet } from './replica-set.js';
import { type PortState, type WholeFailure, wholeFailure } from './standing.js';
import { outcomeOf } from './unary.js';

/** A gate's answer from the plugin-hosts. */
export interface Answered<P extends Port> {
  readonly kind: 'answered';
  readonly reply: PortReply<P>;
  /** Reasons of every plugin that asked, in chain order. */
  readonly asks: readonly gate.AskReason[];
  readonly outcomes: readonly gate.Outcome[];
}

/** The gate could not be asked as a whole. */
export interface Unasked extends WholeFailure {
  readonly kind: 'unasked';
}

/** The chain failed by a plugin's failure, as its policy wants it. */
export interface ChainFailed {
  readonly kind: 'failed';
  readonly failure: gate.Failure;
}

/** One gate to be asked. */
export interface Asking<P extends Port> {
  readonly port: P;
  readonly state: PortState;
  readonly subject: MatchSubject;
  /** JSON text of the payload. */
  readonly payload: string;
  /** Milliseconds. */
  readonly budgetMs: number;
}

const NO_BYTES = Buffer.alloc(0);
const NO_NAMES: string[] = [];
const NOBODY: ReadonlySet<Replica> = new Set();
const CLOCK_SKEW_MS = 5_000;
/** How often it is looked whether a host can be reached again, milliseconds. */
const CONNECTION_PAUSE_MS = 25;
/** Part of a gate's budget that is kept for asking, where a host had to be waited for. */
const KEPT_FOR_ASKING = 0.2;
/** By how much a timer may fire early by another clock, milliseconds. */
const TIMER_SLACK_MS = 5;
const MOST_OUTCOMES = 256;
/** Questions to watching plugins under way at once; what comes beyond is not shown to them. */
const MOST_SHOWN = 64;
const OUTCOMES: ReadonlySet<string> = new Set<string>(HOOK_OUTCOMES);

/** Asks gates over the wire. */
export class GateAsker {
  private readonly principals = new WeakMap<Principal, Buffer>();
  private showing = 0;

  constructor(
    private readonly replicas: ReplicaSet,
    private readonly clock: Clock,
    private readonly authorityNow: () => number,
    private readonly sign: CapabilitySigner | undefined,
  ) {}

  /** Never rejects. The call's signal cancels it; what it records then is dropped by the guard around it. */
  async ask<P extends Port>(asking: Asking<P>, call: GateCall): Promise<Answered<P> | Unasked | ChainFailed> {
    const started = this.clock.now();
    const whole = wholeFailure(asking.state, asking.subject);
    if (whole !== undefined) return { kind: 'unasked', ...whole };
    const envelope = this.envelopeOf(asking, call);
    const tried = new Set<Replica>();
    let resent = false;
    let again: Replica | undefined;
    let failure: WholeFailure = {
      outcome: 'not ready',
      reason: `No plugin-host is ready to be asked on ${asking.port}.`,
    };
    for (;;) {
      const replica = this.replicas.forGate(asking.port, asking.subject, tried) ?? again;
      if (replica === undefined) return { kind: 'unasked', ...failure };
      again = undefined;
      const result = await this.dispatch(replica, asking, envelope, call, started);
      if (!('retry' in result)) return result;
      failure = result.failure;
      tried.add(replica);
      if (result.retry === 'refused') continue;
      if (resent) {
        if (!(await this.awaitConnection(asking, call, started))) return { kind: 'unasked', ...failure };
        // Chosen anew: the address of the last one may have been given up, and its channel closed.
        tried.clear();
        continue;
      }
      resent = true;
      again = replica;
    }
  }

  /**
   * Hands a question to the plugins that only watch, where nobody else is asked. Never rejects; the answer is dropped:
   * the plugin-host records what they decide.
   */
  async show(asking: Omit<Asking<Port>, 'state'>, call: GateCall): Promise<void> {
    const replica = this.replicas.forShadow(asking.port);
    if (replica === undefined || this.showing >= MOST_SHOWN) return;
    this.showing += 1;
    const request: gate.GateRequest = {
      port: asking.port,
      envelope: this.envelopeOf(asking, call),
      minChainEpoch: 0,
      budgetMs: asking.budgetMs,
      toolName: asking.subject.tool ?? '',
    };
    await replica.dispatches.ask(request, undefined);
    this.showing -= 1;
  }

  /** The principal as it travels. */
  principalBytes(principal: Principal): Buffer {
    let bytes = this.principals.get(principal);
    if (bytes === undefined) {
      const { tenant, key, actor, agent, mode, metadata } = principal;
      bytes = Buffer.from(JSON.stringify({ tenant, key, actor, agent, mode, metadata }));
      this.principals.set(principal, bytes);
    }
    return bytes;
  }

  /** Signed authority for call-backs from this site, for `ms` milliseconds; empty without a key. */
  capabilityBytes(call: Pick<GateCall, 'site' | 'principal'>, subject: string, ms: number): Buffer {
    if (this.sign === undefined) return NO_BYTES;
    const { tenantId, sessionId, runId } = call.site;
    const { agent, mode } = call.principal;
    return this.sign({
      tenant: tenantId,
      session: sessionId,
      // A run has its profile frozen in it; before there is one, the request says which.
      ...(runId === undefined ? { agent, ...(mode === undefined ? {} : { mode }) } : { run: runId }),
      subject,
      expiresAt: this.authorityNow() + ms + CLOCK_SKEW_MS,
    });
  }

  /**
   * Waits until a host can be reached and one serves the gate: while hosts are rolled the last connection can break before
   * the one to the next host is made. The question has reached nobody, and the budget is there to be waited for. False when
   * too little of it is left. A gate that comes when the last snapshot of a lost host serves no more fails at once.
   */
  private async awaitConnection(asking: Asking<Port>, call: GateCall, started: number): Promise<boolean> {
    const until = started + asking.budgetMs * (1 - KEPT_FOR_ASKING);
    do {
      await this.clock.sleep(CONNECTION_PAUSE_MS, call.signal);
      if (call.signal.aborted || this.clock.now() >= until) return false;
    } while (!this.replicas.anyWatched() || this.replicas.forGate(asking.port, asking.subject, NOBODY) === undefined);
    return true;
  }

  private envelopeOf(asking: Omit<Asking<Port>, 'state'>, call: GateCall): NonNullable<gate.GateRequest['envelope']> {
    const { site } = call;
    return {
      type: asking.port,
      chainId: randomUUID(),
      seen: NO_NAMES,
      sessionId: site.sessionId,
      runId: site.runId ?? '',
      turnId: site.turnId ?? '',
      payload: Buffer.from(asking.payload),
      context: encodeScratchpad(call.scratchpad),
      reason: '',
      budgetMs: asking.budgetMs,
      attempt: site.attempt ?? 0,
      principal: this.principalBytes(call.principal),
      capability: this.capabilityBytes(call, portTable[asking.port].gate, asking.budgetMs),
      skipResult: NO_BYTES,
      eventId: '',
      eventSeq: 0,
    };
  }

  private async dispatch<P extends Port>(
    replica: Replica,
    asking: Asking<P>,
    envelope: NonNullable<gate.GateRequest['envelope']>,
    call: GateCall,
    started: number,
  ): Promise<Answered<P> | Unasked | ChainFailed | { retry: 'refused' | 'undelivered'; failure: WholeFailure }> {
    const left = Math.floor(asking.budgetMs - (this.clock.now() - started));
    if (left <= 0 || call.signal.aborted) {
      return { kind: 'unasked', outcome: 'not asked', reason: `The ${asking.budgetMs} ms of the gate were used up.` };
    }
    const request: gate.GateRequest = {
      port: asking.port,
      envelope: left === envelope.budgetMs ? envelope : { ...envelope, budgetMs: left },
      minChainEpoch: this.replicas.epoch,
      budgetMs: left,
      toolName: asking.subject.tool ?? '',
    };
    replica.inFlight += 1;
    const result = await replica.dispatches.ask(request, call.signal);
    replica.inFlight -= 1;
    if (result.kind === 'failed') {
      const { code, details } = result.error;
      const failure = { outcome: outcomeOf(result.error), reason: `The plugin-host did not answer: ${shown(details)}` };
      if (code === status.FAILED_PRECONDITION) return { retry: 'refused', failure };
      if (code === status.UNAVAILABLE && !result.headers) return { retry: 'undelivered', failure };
      if (this.clock.now() - started >= asking.budgetMs - TIMER_SLACK_MS) replica.fellSilent();
      return { kind: 'unasked', ...failure };
    }
    replica.heard();
    return this.judged(asking, envelope, result.value, request.minChainEpoch, call);
  }

  private judged<P extends Port>(
    asking: Asking<P>,
    sent: NonNullable<gate.GateRequest['envelope']>,
    answer: gate.GateAnswer,
    minEpoch: number,
    call: GateCall,
  ): Answered<P> | Unasked | ChainFailed | { retry: 'refused'; failure: WholeFailure } {
    if (answer.chainEpoch < minEpoch) {
      const reason = `The plugin-host answered under chain epoch ${answer.chainEpoch}, ${minEpoch} is needed.`;
      return { retry: 'refused', failure: { outcome: 'not ready', reason } };
    }
    this.replicas.sawEpoch(answer.chainEpoch);
    const { envelope } = answer;
    if (envelope?.chainId !== sent.chainId) {
      return { kind: 'unasked', outcome: 'invalid', reason: 'The plugin-host answered another question.' };
    }
    for (const outcome of answer.outcomes.slice(0, MOST_OUTCOMES)) call.record(recordOf(asking.port, outcome));
    if (answer.failure !== undefined) return { kind: 'failed', failure: answer.failure };
    const reply = interpretReply(asking.port, sent, envelope, Number.MAX_SAFE_INTEGER);
    if (reply.invalid !== undefined) {
      return {
        kind: 'unasked',
        outcome: reply.outcome,
        reason: `The plugin-host's answer is invalid: ${reply.invalid}.`,
      };
    }
    if (reply.patch !== undefined) call.merge(reply.patch);
    if (reply.notes.length > 0) call.record(hostRecord(asking.port, 'continued', reply.notes.join('; '), 0));
    return { kind: 'answered', reply, asks: answer.askReasons, outcomes: answer.outcomes };
  }
}

/** An audit line of the host itself. */
export function hostRecord(port: Port, outcome: HookOutcome, reason: string, durationMs: number): HookRecord {
  return { gate: portTable[port].gate, port, hook: 'host', outcome, reason, startedMs: 0, durationMs, queueMs: 0 };
}

function recordOf(port: Port, one: gate.Outcome): HookRecord {
  const reason = cutReason(one.reason);
  return {
    gate: portTable[port].gate,
    port,
    hook: one.plugin,
    ...(one.version === '' ? {} : { version: one.version }),
    ...(one.policyVersion === '' ? {} : { policyVersion: one.policyVersion }),
    ...(one.generation === 0 ? {} : { generation: one.generation }),
    outcome: knownOutcome(one.outcome),
    ...(reason === undefined ? {} : { reason }),
    startedMs: one.startedMs,
    durationMs: one.durationMs,
    queueMs: one.queueMs,
  };
}

function knownOutcome(text: string): HookRecord['outcome'] {
  return OUTCOMES.has(text) || text.startsWith('shadow:') ? (text as HookRecord['outcome']) : 'invalid';
}

function shown(details: string): string {
  return details.length > 200 ? `${details.slice(0, 199)}…` : details;
}
