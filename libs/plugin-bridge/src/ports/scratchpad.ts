import {
  type JsonObject,
  patchedScratchpad,
  SCRATCHPAD_LIMIT_BYTES,
  type ScratchpadPatch,
  scratchpadPatch,
} from '@codedock/domain';
import { InvalidAnswer } from './invalid-answer.js';
import { readJsonObject } from './read-json.js';

const EMPTY = Buffer.from('{}');

/** The scratchpad as it travels in `context`. */
export function encodeScratchpad(scratchpad: JsonObject): Buffer {
  for (const _ in scratchpad) return Buffer.from(JSON.stringify(scratchpad));
  return EMPTY;
}

/** The scratchpad in a question's `context`; no bytes are an empty one. @throws InvalidAnswer */
export function decodeScratchpad(context: Uint8Array): JsonObject {
  return context.length === 0 ? {} : readJsonObject(context, 'context').value;
}

/** What an answer did to the scratchpad: a patch, nothing, or an update that is dropped (never a failure of the gate). */
export interface ScratchpadAnswer {
  readonly patch?: ScratchpadPatch;
  /** Why the update was dropped. */
  readonly dropped?: string;
}

const UNCHANGED: ScratchpadAnswer = {};

/** Compares the answered `context` with the sent one by top-level key. No bytes in the answer = unchanged. */
export function scratchpadAnswer(sent: Buffer, answered: Buffer): ScratchpadAnswer {
  if (answered.length === 0 || answered.equals(sent)) return UNCHANGED;
  if (answered.length > SCRATCHPAD_LIMIT_BYTES) {
    return { dropped: `scratchpad update dropped: ${answered.length} bytes, at most ${SCRATCHPAD_LIMIT_BYTES}` };
  }
  try {
    const patch = scratchpadPatch(decodeScratchpad(sent), readJsonObject(answered, 'context').value);
    return patch === undefined ? UNCHANGED : { patch };
  } catch (error) {
    if (error instanceof InvalidAnswer) return { dropped: `scratchpad update dropped: ${error.message}` };
    throw error;
  }
}

/** A scratchpad after a merge, encoded too; `dropped` says why the merge did not happen. */
export interface MergedScratchpad {
  readonly scratchpad: JsonObject;
  readonly bytes: Buffer;
  readonly dropped?: string;
}

/** Lays a patch over a scratchpad; a result over 8 KiB drops the whole patch. */
export function mergeScratchpad(current: JsonObject, patch: ScratchpadPatch): MergedScratchpad {
  const scratchpad = patchedScratchpad(current, patch);
  const bytes = encodeScratchpad(scratchpad);
  if (bytes.length <= SCRATCHPAD_LIMIT_BYTES) return { scratchpad, bytes };
  return {
    scratchpad: current,
    bytes: encodeScratchpad(current),
    dropped: `scratchpad update dropped: ${bytes.length} bytes after the merge, at most ${SCRATCHPAD_LIMIT_BYTES}`,
  };
}
