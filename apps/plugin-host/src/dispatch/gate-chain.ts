import { randomUUID } from 'node:crypto';
import { failureCodeOf, type HookOutcome } from '@codedock/domain';
import {
  decodeScratchpad,
  type FailurePolicy,
  interpretReply,
  mergeScratchpad,
  type PortReply,
  portSpec,
} from '@codedock/plugin-bridge';
import { chainReserveMs, type gate, type Port, plugin } from '@codedock/proto';
import type { PluginIdentity } from '../session/generation.js';
import type { AskResult } from '../session/plugin-session.js';

/** A plugin as a gate sees it. */
export interface GateEndpoint {
  readonly plugin: string;
  /** Effective on this port. */
  readonly failurePolicy: FailurePolicy;
  /** Milliseconds of one call at most. */
  readonly timeoutMs: number;
  /** Bytes of the largest payload it takes. */
  readonly maxPayloadBytes: number;
  readonly identity: PluginIdentity;
  /** Asks once; never rejects, and settles within `timeoutMs`. `promisedMs` is what it would get at best. */
  ask(
    envelope: plugin.Envelope,
    timeoutMs: number,
    promisedMs: number,
    signal: AbortSignal | undefined,
  ): Promise<AskResult>;
}

/** A required plugin that never came up. */
export interface MissingPlugin {
  readonly plugin: string;
  readonly reason: string;
}

/** One gate to be asked. */
export interface GateQuestion {
  readonly port: Port;
  readonly envelope: plugin.Envelope;
  /** Milliseconds of the gate as the caller counts them. */
  readonly budgetMs: number;
  readonly chainEpoch: number;
  /** Ends the chain, and cancels the question in the plugin that is being asked; nobody reads the answer then. */
  readonly signal?: AbortSignal | undefined;
}

const noBytes = Buffer.alloc(0);
const leastUsefulMs = 1;
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
  private ending: { readonly type: string; readonly reason: string; readonly skipResult: Buffer } | undefined;

  constructor(private readonly question: GateQuestion) {
    const { envelope } = question;
    this.seen = [...envelope.seen];
    this.chainId = envelope.chainId || randomUUID();
    this.payload = envelope.payload;
    this.context = envelope.context;
  }

  async run(endpoints: readonly GateEndpoint[], missing: readonly MissingPlugin[]): Promise<gate.GateAnswer> {
    for (const { plugin: name, reason } of missing) {
      this.record(name, noIdentity, 'not ready', reason, 'closed', this.elapsed(), 0);
    }
    const endsAt = this.question.budgetMs - chainReserveMs;
    for (const endpoint of endpoints) {
      if (this.failure !== undefined || this.ending !== undefined || this.question.signal?.aborted) break;
      await this.askOne(endpoint, endsAt);
    }
    return this.answer();
  }

  private async askOne(endpoint: GateEndpoint, endsAt: number): Promise<void> {
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
    const sent = this.envelopeFor(limit);
    const result = await endpoint.ask(sent, limit, endpoint.timeoutMs, this.question.signal);
    if (result.kind === 'cancelled') return;
    this.seen.push(endpoint.plugin);
    if (result.kind === 'failed') return fail(result.outcome, result.reason, result.queueMs);
    const reply = interpretReply(
      this.question.port,
      { payload: this.payload, context: this.context, chainId: this.chainId },
      result.reply,
      endpoint.maxPayloadBytes,
    );
    if (reply.invalid !== undefined) return fail(reply.outcome, reply.invalid, result.queueMs);
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
  }

  private apply(endpoint: GateEndpoint, reply: PortReply, answered: plugin.Envelope): void {
    if (reply.patch !== undefined) this.context = mergeScratchpad(decodeScratchpad(this.context), reply.patch).bytes;
    if (reply.changed) {
      this.payload = reply.payload;
      this.changed = true;
    }
    if (reply.direction === 'ask') this.asks.push({ plugin: endpoint.plugin, reason: reply.reason ?? '' });
    else if (reply.direction !== 'continue') {
      const skipped =
        reply.skipResult === undefined
          ? noBytes
          : answered.skipResult.length > 0
            ? answered.skipResult
            : Buffer.from(JSON.stringify(reply.skipResult));
      this.ending = { type: answered.type, reason: reply.reason ?? '', skipResult: skipped };
    }
  }

  private envelopeFor(limitMs: number): plugin.Envelope {
    const { envelope, port } = this.question;
    return {
      ...envelope,
      type: port,
      chainId: this.chainId,
      seen: [...this.seen],
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

function describe(reply: PortReply): string {
  if (reply.notes.length === 0) return reply.reason ?? '';
  return [reply.reason, ...reply.notes].filter((text) => text !== undefined && text !== '').join('; ');
}
