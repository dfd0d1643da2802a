import { type JsonObject, patchedScratchpad, SCRATCHPAD_LIMIT_BYTES, type ScratchpadPatch } from '@codedock/domain';

/** The plugins' shared bag of a run as this attempt knows it: what is stored, and the patches that are on their way. */
export class RunBag {
  #bag: JsonObject;

  constructor(stored: JsonObject) {
    this.#bag = deepFrozen(structuredClone(stored));
  }

  /** Deep-frozen; the same object until something changes. */
  get current(): JsonObject {
    return this.#bag;
  }

  /** Lays a patch over it, unless that would exceed the limit: the store drops and records such a patch by the same rule. */
  merge(patch: ScratchpadPatch): void {
    const merged = patchedScratchpad(this.#bag, structuredClone(patch));
    if (Buffer.byteLength(JSON.stringify(merged)) <= SCRATCHPAD_LIMIT_BYTES) this.#bag = deepFrozen(merged);
  }

  /** What the store says it holds now, with the patches that it does not know yet. */
  settle(stored: JsonObject, underway: readonly ScratchpadPatch[]): void {
    this.#bag = deepFrozen(structuredClone(stored));
    for (const patch of underway) this.merge(patch);
  }
}

function deepFrozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFrozen(child);
  }
  return value;
}
