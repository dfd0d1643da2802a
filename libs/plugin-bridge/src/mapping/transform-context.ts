import type { JsonValue } from '@codedock/domain';
import { optionalArray, stringField } from './fields.js';
import { changedMessages, messageText } from './message-wire.js';
import type { PortMapping } from './port-mapping.js';

/** `transformContext` ↔ `agent/request`: `{system_prompt, messages?}`. */
export const transformContextMapping: PortMapping<'agent/request'> = {
  encode(event) {
    const prompt = JSON.stringify(event.systemPrompt);
    if (event.messages.length === 0) return `{"system_prompt":${prompt}}`;
    return `{"system_prompt":${prompt},"messages":[${event.messages.map(messageText).join(',')}]}`;
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
