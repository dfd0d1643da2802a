import type { JsonValue } from '@codedock/domain';
import { optionalArray, stringField } from './fields.js';
import { changedMessages, messageToWire } from './message-wire.js';
import type { PortMapping } from './port-mapping.js';

/** `beforeRunStart` ↔ `agent/pre-step`: `{system_prompt, hidden?}`. */
export const beforeRunStartMapping: PortMapping<'agent/pre-step'> = {
  encode(event) {
    return JSON.stringify(
      event.hidden.length === 0
        ? { system_prompt: event.systemPrompt }
        : { system_prompt: event.systemPrompt, hidden: event.hidden.map(messageToWire) },
    );
  },
  layOver(sent, answer) {
    const prompt = stringField(answer.value, 'system_prompt', 'system_prompt');
    const newPrompt = prompt !== undefined && prompt !== sent.value['system_prompt'];
    const answered = optionalArray(answer.value, 'hidden', 'hidden');
    const sentHidden = (sent.value['hidden'] as JsonValue[] | undefined) ?? [];
    const hidden = answered === undefined ? undefined : changedMessages(sentHidden, answered, 'hidden');
    if (!newPrompt && hidden === undefined) return undefined;
    return {
      text: JSON.stringify({
        ...sent.value,
        ...(newPrompt ? { system_prompt: prompt } : {}),
        ...(hidden === undefined ? {} : { hidden }),
      }),
      change: { ...(newPrompt ? { systemPrompt: prompt } : {}), ...(hidden === undefined ? {} : { hidden }) },
    };
  },
};
