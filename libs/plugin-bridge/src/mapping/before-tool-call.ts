import { type JsonObject, jsonEqual } from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { optionalObject, stringField } from './fields.js';
import { callToWire } from './message-wire.js';
import type { PortMapping } from './port-mapping.js';

/** `beforeToolCall` ↔ `tools/pre-execute`: `{call}`, of which only the arguments may change. */
export const beforeToolCallMapping: PortMapping<'tools/pre-execute'> = {
  encode(event) {
    return JSON.stringify({ call: callToWire(event.call) });
  },
  layOver(sent, answer) {
    const call = optionalObject(answer.value, 'call', 'call');
    if (call === undefined) return undefined;
    const sentCall = sent.value['call'] as JsonObject;
    for (const fixed of ['id', 'name'] as const) {
      const value = stringField(call, fixed, `call.${fixed}`);
      if (value !== undefined && value !== sentCall[fixed]) {
        throw new InvalidAnswer(`call.${fixed} differs from the one that was sent`);
      }
    }
    const args = call['arguments'];
    if (args === undefined || jsonEqual(args, sentCall['arguments'] ?? null)) return undefined;
    return { text: JSON.stringify({ call: { ...sentCall, arguments: args } }), change: { arguments: args } };
  },
};
