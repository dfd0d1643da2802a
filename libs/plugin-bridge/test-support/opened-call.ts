import type { GateCall, GateSite, HookRecord, JsonObject, Principal, ScratchpadPatch } from '@codedock/domain';

/** A gate call that keeps what hooks record and merge. */
export interface OpenedCall extends GateCall {
  readonly records: HookRecord[];
  readonly patches: ScratchpadPatch[];
}

export const principal: Principal = { tenant: 'acme', key: 'ci', agent: 'coder', metadata: {} };

/** Opens a gate for a test. */
export function opened(
  more: { site?: Partial<GateSite>; principal?: Principal; signal?: AbortSignal; scratchpad?: JsonObject } = {},
): OpenedCall {
  const records: HookRecord[] = [];
  const patches: ScratchpadPatch[] = [];
  return {
    site: { tenantId: 'acme', sessionId: 'session-1', runId: 'run-1', ...more.site },
    principal: more.principal ?? principal,
    signal: more.signal ?? new AbortController().signal,
    scratchpad: more.scratchpad ?? {},
    merge: (patch) => patches.push(patch),
    record: (record) => records.push(record),
    records,
    patches,
  };
}
