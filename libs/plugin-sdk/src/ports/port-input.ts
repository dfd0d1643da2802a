import type { Host } from '../host/host.js';
import type { JsonObject } from '../json.js';
import type { Principal } from '../principal.js';
import type { Scratchpad } from '../scratchpad.js';

/** What every question, notification and tool call carries beside its own values. */
export interface CallContext {
  readonly sessionId: string;
  /** Empty before there is a run (agent/input). */
  readonly runId: string;
  readonly turnId: string;
  /** Who asks. */
  readonly principal: Principal;
  /** Aborted when the host does not wait any more: it cancelled, or its deadline passed. */
  readonly signal: AbortSignal;
  /** Milliseconds left when the question arrived; Infinity when the host did not say. */
  readonly budgetMs: number;
  /** Calls back into the host; pass this input as the address: `input.host.appendNotice(input, 'text')`. */
  readonly host: Host;
}

/** One question on a port, decoded. */
export interface Question extends CallContext {
  readonly payload: JsonObject;
  readonly chainId: string;
  /** Plugins already asked on this chain, in order. */
  readonly seen: readonly string[];
  readonly attempt: number;
  readonly context: Scratchpad;
}

/** Members that the inputs of all six ports share. */
export abstract class PortInput implements CallContext {
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly principal: Principal;
  readonly signal: AbortSignal;
  readonly budgetMs: number;
  readonly host: Host;
  readonly chainId: string;
  /** Plugins already asked on this chain, in order. */
  readonly seen: readonly string[];
  readonly attempt: number;
  /** The plugins' shared bag of the run. */
  readonly context: Scratchpad;

  /** @internal */
  constructor(question: Question) {
    this.sessionId = question.sessionId;
    this.runId = question.runId;
    this.turnId = question.turnId;
    this.principal = question.principal;
    this.signal = question.signal;
    this.budgetMs = question.budgetMs;
    this.host = question.host;
    this.chainId = question.chainId;
    this.seen = question.seen;
    this.attempt = question.attempt;
    this.context = question.context;
  }
}
