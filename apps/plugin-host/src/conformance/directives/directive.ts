import type { JsonObject, JsonValue } from '@codedock/domain';

/** What a plugin of the table is told to do: in the scratchpad at gates, in the arguments at its tool. */
export interface Directive {
  /** Answer type on the wire; absent = continue. */
  readonly type?: string;
  readonly reason?: string;
  readonly skip_result?: JsonValue;
  /** Laid over the port's value (the call's at tools/pre-execute, the result's at tools/post-execute). */
  readonly change?: JsonObject;
  /** Goes to the end of the port's text. */
  readonly append?: string;
  /** Goes to the end of the port's messages, after `drop` of them were taken from the front. */
  readonly add?: readonly JsonObject[];
  readonly drop?: number;
  /** What to set and delete in the scratchpad. */
  readonly set?: JsonObject;
  readonly delete?: readonly string[];
  /** Calls to the host; what they gave is set in the scratchpad as `called`. */
  readonly calls?: readonly HostCall[];
  readonly print?: string;
  readonly log?: string;
  /** Logs "hangs", waits for the cancel, logs "cancelled"; both with this mark. */
  readonly hang?: string;
  readonly fail?: string;
  readonly panic?: string;
}

/** What a plugin may call. */
export type HostMethod =
  | 'AppendNotice'
  | 'Complete'
  | 'Emit'
  | 'GetActiveTools'
  | 'GetSecret'
  | 'GetSetting'
  | 'GetSystemPrompt'
  | 'ListModels'
  | 'MemoryGet'
  | 'MemoryUpsert'
  | 'RegisterMethod'
  | 'SetActiveTools'
  | 'SetSecret'
  | 'SetSetting';

/** One call to the host. */
export interface HostCall {
  readonly method: HostMethod;
  readonly name?: string;
  readonly text?: string;
  readonly value?: JsonValue;
  /** In place of the question's own. */
  readonly session?: string;
}

/** What a call to the host gave; `code` is the gRPC status, 0 for success. */
export interface Called {
  readonly code: number;
  readonly text: string;
}
