import { randomUUID } from 'node:crypto';
import { failureCodeOf, type HookOutcome } from '@codedock/domain';
import {
  decodeScratchpad,
  type FailurePolicy,
  interpretReply,
  type Match,
  type MatchSubject,
  mergeScratchpad,
  type PortReply,
  portSpec,
} from '@codedock/plugin-bridge';
import { chainReserveMs, type gate, type Port, plugin } from '@codedock/proto';
import type { PluginIdentity } from '../session/generation.js';
import type { GateEndpoint, MissingPlugin } from './gate-endpoint.js';
import { matchSubjectOf } from './match-subject.js';
import { inQuestionSpan } from './question-span.js';
import { shadowOutcome, shadowPending } from './shadow.js';

/** One gate to be asked. */
export interface GateQuestion {
  readonly port: Port;
  readonly envelope: plugin.Envelope;
  /** Milliseconds of the gate as the caller counts them. */
  readonly budgetMs: number;
  readonly chainEpoch: number;
  /** The tool the gate is about; absent elsewhere. */
  readonly toolName?: string;
  /** Takes what a plugin in shadow mode decided after the chain was over. */
  readonly onLateShadow?: (outcome: gate.Outcome) => void;
  /** Ends the chain, and cancels the question in the plugin that is being asked; nobody reads the answer then. */
  readonly signal?: AbortSignal | undefined;
}

const noBytes = Buffer.alloc(0);
const leastUsefulMs = 5;
const noIdentity: PluginIdentity = { version: '', policyVersion: '', checksum: '', configDigest: '', generation: 0 };

/**
 * Asks the plugins of one port in order and always answers before the budget less 100 ms, with the value and outcomes
 * so far. The first failure on a veto port, or of a plugin whose policy is closed, ends it with a failure; on a rewrite
 * port the failing plugin is left out. An answer that comes late changes nothing.
 */
export async function runGateChain(
  question: GateQuestion,
  endpoints: readonly GateEndpoint[],
  missing: readonly MissingPlugin[],
): Promise<gate.GateAnswer> {
  return new GateChain(question).run(endpoints, missing);
}

class GateChain {
  private readonly startedAt = performance.now();
  private readonly outcomes: gate.Outcome[] = [];
  private readonly asks: gate.AskReason[] = [];
  private readonly seen: string[];
  private readonly chainId: string;
  private payload: Buffer;
  private context: Buffer;
  private changed = false;
  private failure: gate.Failure | undefined;
  private readonly judged = new Map<GateEndpoint, Buffer>();
  private subject: MatchSubject | undefined;
  private answered = false;
  private ending: { readonly type: string; readonly reason: string; readonly skipResult: Buffer } | undefined;

  constructor(private readonly question: GateQuestion) {
    const { envelope } = question;
    this.seen = [...envelope.seen];
    this.chainId = envelope.chainId || randomUUID();
    this.payload = envelope.payload;
    this.context = envelope.context;
  }

  async run(endpoints: readonly GateEndpoint[], missing: readonly MissingPlugin[]): Promise<gate.GateAnswer> {
    for (const { plugin: name, reason, matches } of missing) {
      if (this.holds(matches)) this.record(name, noIdentity, 'not ready', reason, 'closed', this.elapsed(), 0);
    }
    const endsAt = this.question.budgetMs - chainReserveMs;
    for (const endpoint of endpoints) {
      if (this.over) break;
      if (!this.holds(endpoint.matches)) this.notMatched(endpoint);
      else if (endpoint.shadow) this.askBeside(endpoint);
      else await this.askOne(endpoint, endsAt);
    }
    for (const [endpoint, value] of this.judged) {
      if (this.over) break;
      if (!value.equals(this.payload)) await this.askOne(endpoint, endsAt, true);
    }
    this.answered = true;
    return this.answer();
  }

  private get over(): boolean {
    return this.failure !== undefined || this.ending !== undefined || this.question.signal?.aborted === true;
  }

  private holds(matches: Match | undefined): boolean {
    if (matches === undefined) return true;
    this.subject ??= matchSubjectOf(this.question.envelope.principal, this.question.toolName ?? '');
    return matches(this.subject);
  }

  private notMatched({ plugin: name, identity }: GateEndpoint): void {
    this.record(name, identity, 'not matched', '', 'open', this.elapsed(), 0);
  }

  /** Starts to ask and goes on; whichever ends first decides where the outcome is recorded. */
  private askBeside(endpoint: GateEndpoint): void {
    const { port, onLateShadow } = this.question;
    const entry: gate.Outcome = {
      plugin: endpoint.plugin,
      ...endpoint.identity,
      startedMs: this.elapsed(),
      durationMs: 0,
      queueMs: 0,
      outcome: shadowPending,
      reason: '',
      changed: false,
    };
    this.outcomes.push(entry);
    const asked = inQuestionSpan(endpoint, port, async () => {
      const decided = await shadowOutcome(port, this.envelopeFor(endpoint.timeoutMs), endpoint);
      return { result: decided, outcome: decided };
    });
    void asked.then((decided) => {
      if (this.answered) onLateShadow?.({ ...entry, ...decided });
      else Object.assign(entry, decided);
    });
  }

  private askOne(endpoint: GateEndpoint, endsAt: number, again = false): Promise<void> {
    const at = this.outcomes.length;
    return inQuestionSpan(endpoint, this.question.port, async () => {
      await this.askNow(endpoint, endsAt, again);
      return { result: undefined, outcome: this.outcomes[at] };
    });
  }

  /** Asks in the chain, or `again` with the final value: under a new chain id, and what it changes then is refused. */
  private async askNow(endpoint: GateEndpoint, endsAt: number, again: boolean): Promise<void> {
    const startedMs = this.elapsed();
    const { identity, failurePolicy } = endpoint;
    const fail = (outcome: HookOutcome, reason: string, queueMs = 0) =>
      this.record(endpoint.plugin, identity, outcome, reason, failurePolicy, startedMs, queueMs);
    const left = endsAt - startedMs;
    if (left < leastUsefulMs) return fail('not asked', 'the budget of the gate was used up by earlier plugins');
    if (this.payload.length > endpoint.maxPayloadBytes) {
      return fail(
        'oversize',
        `the payload has ${this.payload.length} bytes, the plugin takes ${endpoint.maxPayloadBytes}`,
      );
    }
    const limit = Math.min(endpoint.timeoutMs, left);
    const chainId = again ? randomUUID() : this.chainId;
    const sent = this.envelopeFor(limit, chainId, again ? [] : this.seen);
    const result = await endpoint.ask(sent, limit, endpoint.timeoutMs, this.question.signal);
    if (result.kind === 'cancelled') return;
    if (!again) this.seen.push(endpoint.plugin);
    if (result.kind === 'failed') return fail(result.outcome, result.reason, result.queueMs);
    const given = interpretReply(
      this.question.port,
      { payload: this.payload, context: this.context, chainId },
      result.reply,
      endpoint.maxPayloadBytes,
    );
    if (given.invalid !== undefined) return fail(given.outcome, given.invalid, result.queueMs);
    const reply = again ? withoutChange(given, this.payload) : given;
    this.apply(endpoint, reply, result.reply);
    this.record(
      endpoint.plugin,
      identity,
      reply.outcome,
      describe(reply),
      failurePolicy,
      startedMs,
      result.queueMs,
      reply.changed,
    );
    if (endpoint.reinvoke && !again && portSpec(this.question.port).class === 'veto')
      this.judged.set(endpoint, this.payload);
  }

  private apply(endpoint: GateEndpoint, reply: PortReply, answered: plugin.Envelope): void {
    if (reply.patch !== undefined) this.context = mergeScratchpad(decodeScratchpad(this.context), reply.patch).bytes;
    if (reply.changed) {
      this.payload = reply.payload;
      this.changed = true;
    }
    if (reply.direction === 'ask') {
      const earlier = this.asks.findIndex((ask) => ask.plugin === endpoint.plugin);
      this.asks.splice(earlier < 0 ? this.asks.length : earlier, 1, {
        plugin: endpoint.plugin,
        reason: reply.reason ?? '',
      });
    } else if (reply.direction !== 'continue') {
      const skipped =
        reply.skipResult === undefined
          ? noBytes
          : answered.skipResult.length > 0
            ? answered.skipResult
            : Buffer.from(JSON.stringify(reply.skipResult));
      this.ending = { type: answered.type, reason: reply.reason ?? '', skipResult: skipped };
    }
  }

  private envelopeFor(limitMs: number, chainId = this.chainId, seen: readonly string[] = this.seen): plugin.Envelope {
    const { envelope, port } = this.question;
    return {
      ...envelope,
      type: port,
      chainId,
      seen: [...seen],
      payload: this.payload,
      context: this.context,
      budgetMs: Math.max(Math.floor(limitMs), 1),
    };
  }

  private record(
    name: string,
    identity: PluginIdentity,
    outcome: HookOutcome,
    reason: string,
    policy: FailurePolicy,
    startedMs: number,
    queueMs: number,
    changed = false,
  ): void {
    this.outcomes.push({
      plugin: name,
      ...identity,
      startedMs,
      durationMs: this.elapsed() - startedMs,
      queueMs,
      outcome,
      reason,
      changed,
    });
    const code = failureCodeOf(outcome);
    if (code === undefined || this.failure !== undefined) return;
    if (policy === 'closed' || portSpec(this.question.port).class === 'veto')
      this.failure = { code, plugin: name, reason };
  }

  /** Carries no value and no scratchpad where those are what was sent: the caller has them. */
  private answer(): gate.GateAnswer {
    const { envelope, chainEpoch } = this.question;
    const ended = this.ending !== undefined || this.failure !== undefined;
    const asked = !ended && this.asks.length > 0;
    const changed = !ended && this.changed && !this.payload.equals(envelope.payload);
    return {
      envelope: {
        type: this.ending?.type ?? (asked ? 'tools/ask' : ''),
        chainId: this.chainId,
        seen: this.seen,
        sessionId: '',
        runId: '',
        turnId: '',
        payload: changed ? this.payload : noBytes,
        context: this.context === envelope.context ? noBytes : this.context,
        reason: this.ending?.reason ?? (asked ? reasonsOf(this.asks) : ''),
        budgetMs: 0,
        attempt: 0,
        principal: noBytes,
        capability: noBytes,
        skipResult: this.ending?.skipResult ?? noBytes,
        eventId: '',
        eventSeq: 0,
      },
      outcomes: this.outcomes,
      askReasons: asked ? this.asks : [],
      failure: this.failure,
      chainEpoch,
      changed,
    };
  }

  private elapsed(): number {
    return performance.now() - this.startedAt;
  }
}

function reasonsOf(asks: readonly gate.AskReason[]): string {
  return asks
    .map((ask) => ask.reason)
    .filter(Boolean)
    .join('; ');
}

/** The answer of a plugin that is asked again: it may refuse or ask, the value is final. */
function withoutChange(reply: PortReply, payload: Buffer): PortReply {
  if (!reply.changed) return reply;
  return {
    ...reply,
    outcome: reply.outcome === 'changed' ? 'continued' : reply.outcome,
    payload,
    changed: false,
    notes: [...reply.notes, 'its changes were refused: it was asked again with the final value'],
  };
}

function describe(reply: PortReply): string {
  if (reply.notes.length === 0) return reply.reason ?? '';
  return [reply.reason, ...reply.notes].filter((text) => text !== undefined && text !== '').join('; ');
}
