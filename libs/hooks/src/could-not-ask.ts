import type { GateFailureCode } from '@codedock/domain';

/** The gate could not be asked. Never the same as a refusal: other code, other metric, other audit outcome. */
export interface CouldNotAsk {
  readonly kind: 'could_not_ask';
  readonly code: GateFailureCode;
  /** Safe to show; names the host as the source. */
  readonly reason: string;
  /** The plugin that failed first; absent when the host itself could not be reached. */
  readonly by?: string;
}
