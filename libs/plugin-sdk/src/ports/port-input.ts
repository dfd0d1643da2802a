import type { CallContext, Host } from '../host/host.js';
import type { JsonObject } from '../json.js';
import type { Principal } from '../principal.js';
import type { Scratchpad } from '../scratchpad.js';

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
  readonly budgetMs: number;
  readonly host: Host;
  readonly chainId: string;
  /** Plugins already asked on this chain, in order. */
  readonly seen: readonly string[];
  readonly attempt: number;
  /** The plugins' shared bag of the run. */
  readonly context: Scratchpad;

  /** @internal */
  constructor(private readonly question: Question) {
    this.sessionId = question.sessionId;
    this.runId = question.runId;
    this.turnId = question.turnId;
    this.budgetMs = question.budgetMs;
    this.host = question.host;
    this.chainId = question.chainId;
    this.seen = question.seen;
    this.attempt = question.attempt;
    this.context = question.context;
  }
  /** Who asks. */
  get principal(): Principal {
    return this.question.principal;
  }

  /** Aborted when the host does not wait any more: it cancelled, or its deadline passed. */
  get signal(): AbortSignal {
    return this.question.signal;
  }
}
