import { type JsonObject, type JsonValue, jsonEqual } from './json.js';

/** Largest scratchpad, in bytes of its JSON text in UTF-8. */
export const SCRATCHPAD_LIMIT_BYTES = 8192;

/** Top-level keys that one answer set and deleted, relative to the copy it was sent. */
export interface ScratchpadPatch {
  readonly set: JsonObject;
  readonly deleted: readonly string[];
}

/** What turns the copy that was sent into the answer; undefined when nothing changed. */
export function scratchpadPatch(sent: JsonObject, answered: JsonObject): ScratchpadPatch | undefined {
  const set: [string, JsonValue][] = Object.entries(answered).filter(
    ([key, value]) => !Object.hasOwn(sent, key) || !jsonEqual(sent[key], value),
  );
  const deleted = Object.keys(sent).filter((key) => !Object.hasOwn(answered, key));
  return set.length === 0 && deleted.length === 0 ? undefined : { set: Object.fromEntries(set), deleted };
}

/** The scratchpad with a patch laid over it: keys the patch does not name keep what other calls wrote. */
export function patchedScratchpad(current: JsonObject, patch: ScratchpadPatch): JsonObject {
  const kept = Object.entries(current).filter(
    ([key]) => !patch.deleted.includes(key) && !Object.hasOwn(patch.set, key),
  );
  return Object.fromEntries([...kept, ...Object.entries(patch.set)]);
}
