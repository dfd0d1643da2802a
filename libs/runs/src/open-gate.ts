import {
  type GateCall,
  type GateSite,
  type HookRecord,
  type JsonObject,
  type Principal,
  patchedScratchpad,
  SCRATCHPAD_LIMIT_BYTES,
  type ScratchpadPatch,
} from '@codedock/domain';
import type { SitedRecord } from '@codedock/store';

/** A gate opened outside the loop, and what its hooks left behind. */
export interface OpenGate {
  readonly call: GateCall;
  /** The audit so far, each line with the gate's site. */
  sitedRecords(): SitedRecord[];
  /** The bag with what the hooks merged; an update over 8 KiB is dropped. */
  scratchpad(): JsonObject;
}

/** Opens a gate or notification whose records and bag the caller stores itself. */
export function openGate(
  site: GateSite,
  principal: Principal,
  scratchpad: JsonObject,
  signal: AbortSignal,
  gate: string,
): OpenGate {
  const records: HookRecord[] = [];
  let bag = scratchpad;
  const merge = (patch: ScratchpadPatch): void => {
    const merged = patchedScratchpad(bag, patch);
    if (new TextEncoder().encode(JSON.stringify(merged)).length <= SCRATCHPAD_LIMIT_BYTES) {
      bag = merged;
      return;
    }
    records.push({
      gate,
      hook: 'host',
      outcome: 'oversize',
      reason: `scratchpad: an update was dropped, the bag would exceed ${SCRATCHPAD_LIMIT_BYTES} bytes`,
      startedMs: 0,
      durationMs: 0,
      queueMs: 0,
    });
  };
  return {
    call: {
      site,
      principal,
      signal,
      scratchpad: deepFrozen(structuredClone(scratchpad)),
      merge,
      record: (record) => {
        records.push(record);
      },
      get records() {
        return records;
      },
    },
    sitedRecords: () => records.map((record) => ({ record, site })),
    scratchpad: () => bag,
  };
}

function deepFrozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFrozen(child);
  }
  return value;
}
