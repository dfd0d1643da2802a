import type { Clock, Digest, GateVersionOf, IdSource, Ledger, Model, Tools } from '@codedock/domain';

/** Everything the loop reaches the outside world through. */
export interface LoopPorts {
  readonly ledger: Ledger;
  readonly model: Model;
  readonly tools: Tools;
  readonly gateVersionOf: GateVersionOf;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly digest: Digest;
  /** True once this process wants to give its runs away; asked between turns. */
  drainRequested(): boolean;
  /** Where the causes of failures go that the run's end only names; `where` is a gate or a port. Must not throw. */
  readonly report?: (error: unknown, where: string) => void;
}
