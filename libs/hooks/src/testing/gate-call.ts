import type { GateCall, HookRecord, LoopView, ScratchpadPatch } from '@codedock/domain';

/** A gate call that keeps what is recorded and merged. */
export function testCall(options: { signal?: AbortSignal; loop?: LoopView } = {}) {
  const records: HookRecord[] = [];
  const patches: ScratchpadPatch[] = [];
  const call: GateCall = {
    site: { tenantId: 't', sessionId: 's', runId: 'r' },
    principal: { tenant: 't', key: 'k', agent: 'a', metadata: {} },
    signal: options.signal ?? new AbortController().signal,
    scratchpad: Object.freeze({}),
    merge: (patch) => void patches.push(patch),
    record: (record) => void records.push(record),
    records,
    ...(options.loop === undefined ? {} : { loop: options.loop }),
  };
  return { call, records, patches };
}
