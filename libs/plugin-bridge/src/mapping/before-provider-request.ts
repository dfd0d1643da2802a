import { type JsonObject, jsonEqual } from '@codedock/domain';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { rawMember } from '../ports/json-member.js';
import { optionalObject } from './fields.js';
import { headerRefusal, visibleHeaders } from './header-policy.js';
import type { PortMapping } from './port-mapping.js';

/**
 * `beforeProviderRequest` ↔ `llm/stream`: `{headers?, body?}`. The body is spliced in as the text it is and taken out as
 * the text it was: no number, key order or escape of it ever changes on the way.
 */
export const beforeProviderRequestMapping: PortMapping<'llm/stream'> = {
  encode(event) {
    return payloadText(JSON.stringify(visibleHeaders(event.headers)), event.body);
  },
  layOver(sent, answer, note) {
    const sentHeaders = (sent.value['headers'] as JsonObject | undefined) ?? {};
    const headers = changedHeaders(sentHeaders, optionalObject(answer.value, 'headers', 'headers'), note);
    const answeredBody = answer.value['body'];
    const newBody = answeredBody !== undefined && answeredBody !== null && !jsonEqual(answeredBody, sent.value['body']);
    if (headers === undefined && !newBody) return undefined;
    const body = newBody ? rawMember(answer.text, 'body') : undefined;
    return {
      text: payloadText(
        JSON.stringify(headers === undefined ? sentHeaders : { ...sentHeaders, ...headers }),
        body ?? rawMember(sent.text, 'body'),
      ),
      change: { ...(headers === undefined ? {} : { headers }), ...(body === undefined ? {} : { body }) },
    };
  },
};

function payloadText(headers: string, body: string | undefined): string {
  return body === undefined || body === '' ? `{"headers":${headers}}` : `{"headers":${headers},"body":${body}}`;
}

function changedHeaders(
  sent: JsonObject,
  answered: JsonObject | undefined,
  note: (text: string) => void,
): Record<string, string> | undefined {
  if (answered === undefined) return undefined;
  let changed: Record<string, string> | undefined;
  for (const [written, value] of Object.entries(answered)) {
    if (typeof value !== 'string') throw new InvalidAnswer('headers has a value that is not a string');
    const name = written.toLowerCase();
    if (sent[name] === value) continue;
    const refusal = headerRefusal(name, value);
    if (refusal !== undefined) {
      note(`header ${JSON.stringify(name.slice(0, 64))} refused: ${refusal}`);
      continue;
    }
    changed ??= {};
    changed[name] = value;
  }
  return changed;
}
