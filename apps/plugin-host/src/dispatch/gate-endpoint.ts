import type { FailurePolicy, Match } from '@codedock/plugin-bridge';
import type { plugin } from '@codedock/proto';
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
  /** Absent = asked for everything. */
  readonly matches?: Match | undefined;
  /** Asked beside the chain, never awaited; what it decides is only recorded. */
  readonly shadow?: boolean;
  /** Asked once more with the final value when a later plugin changed it. */
  readonly reinvoke?: boolean;
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
  /** JSON of its `match`; empty = everything. */
  readonly matchJson?: string;
  /** Absent = it is missed at everything. */
  readonly matches?: Match | undefined;
}
