import { isWellFormed } from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { optionalString, stringField } from './fields.js';
import type { PortMapping } from './port-mapping.js';

/** `beforeInput` ↔ `agent/input`: `{content, mode?}`; an empty mode in the answer is unchanged. */
export const beforeInputMapping: PortMapping<'agent/input'> = {
  encode(event) {
    return JSON.stringify(
      event.mode === undefined || event.mode === ''
        ? { content: event.content }
        : { content: event.content, mode: event.mode },
    );
  },
  layOver(sent, answer) {
    const content = storable(stringField(answer.value, 'content', 'content'), 'content');
    const mode = storable(optionalString(answer.value, 'mode', 'mode'), 'mode');
    const newContent = content !== undefined && content !== sent.value['content'];
    const newMode = mode !== undefined && mode !== sent.value['mode'];
    if (!newContent && !newMode) return undefined;
    if (newContent && content === '') throw new InvalidAnswer('content is empty');
    const change = { ...(newContent ? { content } : {}), ...(newMode ? { mode } : {}) };
    return { text: JSON.stringify({ ...sent.value, ...change }), change };
  },
};

// What a request could not hold, a rewritten request cannot either.
function storable(text: string | undefined, path: string): string | undefined {
  if (text !== undefined && !isWellFormed(text)) throw new InvalidAnswer(`${path} has a NUL or an unpaired surrogate`);
  return text;
}
