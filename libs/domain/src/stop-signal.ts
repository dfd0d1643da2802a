/** Why a run's signal was aborted. */
export type StopKind = 'cancel' | 'lease_lost' | 'timeout' | 'drain';

/** The `reason` of a run's aborted signal. */
export class RunStopped extends Error {
  readonly kind: StopKind;
  constructor(kind: StopKind) {
    super(`the run was stopped: ${kind}`);
    this.name = 'RunStopped';
    this.kind = kind;
  }
}

/** Why the signal was aborted; undefined while it is not, `cancel` for a foreign reason. */
export function stopKindOf(signal: AbortSignal): StopKind | undefined {
  if (!signal.aborted) return undefined;
  return signal.reason instanceof RunStopped ? signal.reason.kind : 'cancel';
}
