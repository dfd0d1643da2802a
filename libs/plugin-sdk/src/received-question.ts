import type { plugin } from '@codedock/proto';
import type { CallContext, Host } from './host/host.js';
import type { IncomingCall } from './incoming-call.js';
import type { JsonObject } from './json.js';
import type { Question } from './ports/port-input.js';
import { type Principal, readPrincipal } from './principal.js';
import type { Scratchpad } from './scratchpad.js';

/** What every call carries; what few handlers look at is read when one does. */
export class ReceivedContext implements CallContext {
  readonly sessionId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly budgetMs: number;
  readonly host: Host;
  private who: Principal | undefined;

  constructor(
    private readonly envelope: plugin.Envelope,
    private readonly call: IncomingCall,
  ) {
    this.sessionId = envelope.sessionId;
    this.runId = envelope.runId;
    this.turnId = envelope.turnId;
    this.budgetMs = envelope.budgetMs > 0 ? envelope.budgetMs : call.timeLeftMs;
    this.host = call.host;
  }

  /** @throws TypeError when it is no JSON object. */
  get principal(): Principal {
    this.who ??= readPrincipal(this.envelope.principal);
    return this.who;
  }

  get signal(): AbortSignal {
    return this.call.signal;
  }
}

/** A question as it came in. */
export class ReceivedQuestion extends ReceivedContext implements Question {
  readonly chainId: string;
  readonly seen: readonly string[];
  readonly attempt: number;

  constructor(
    envelope: plugin.Envelope,
    call: IncomingCall,
    readonly payload: JsonObject,
    readonly context: Scratchpad,
  ) {
    super(envelope, call);
    this.chainId = envelope.chainId;
    this.seen = envelope.seen;
    this.attempt = envelope.attempt;
  }
}
