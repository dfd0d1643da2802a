import { isWellFormed } from '@codedock/domain';

/** Longest name, or owner, of a memory entry, UTF-16 code units. */
export const MAX_MEMORY_NAME = 200;
/** Longest text of one, UTF-16 code units. */
export const MAX_MEMORY_TEXT = 100_000;

/** Whether a name can be one of an entry. */
export function isMemoryName(name: string): boolean {
  return name.length > 0 && name.length <= MAX_MEMORY_NAME && isWellFormed(name);
}
