import type { JsonValue } from '@codedock/domain';
import { optionalArray, stringField } from './fields.js';
import { changedMessages, messageToWire } from './message-wire.js';
import type { PortMapping } from './port-mapping.js';

/** `transformContext` ↔ `agent/request`: `{system_prompt, messages?}`. */
export const transformContextMapping: PortMapping<'agent/request'> = {
  encode(event) {
    return JSON.stringify(
      event.messages.length === 0
        ? { system_prompt: event.systemPrompt }
        : { system_prompt: event.systemPrompt, messages: event.messages.map(messageToWire) },
    );
  },
  layOver(sent, answer) {
    const prompt = stringField(answer.value, 'system_prompt', 'system_prompt');
    const newPrompt = prompt !== undefined && prompt !== sent.value['system_prompt'];
    const answered = optionalArray(answer.value, 'messages', 'messages');
    const sentMessages = (sent.value['messages'] as JsonValue[] | undefined) ?? [];
    const messages = answered === undefined ? undefined : changedMessages(sentMessages, answered, 'messages');
    if (!newPrompt && messages === undefined) return undefined;
    return {
      text: JSON.stringify({
        ...sent.value,
        ...(newPrompt ? { system_prompt: prompt } : {}),
        ...(messages === undefined ? {} : { messages }),
      }),
      change: { ...(newPrompt ? { systemPrompt: prompt } : {}), ...(messages === undefined ? {} : { messages }) },
    };
  },
};
