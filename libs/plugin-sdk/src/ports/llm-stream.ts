import { isJsonObject, type JsonObject, type JsonValue, jsonEqual } from '../json.js';
import { Answer, ifGiven } from './answer.js';
import { PortInput, type Question } from './port-input.js';

/** What may change at llm/stream. */
export interface LlmStreamChanges {
  /** Laid over the request's headers; a header that is not named stays. Framing and credential headers are refused. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the whole body. */
  readonly body?: JsonValue | undefined;
}

/** One HTTP attempt at a model provider, right before it is sent. Credentials are not part of it. */
export class LlmStream extends PortInput {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonValue | undefined;

  /** @internal */
  constructor(question: Question) {
    super(question);
    const { headers, body } = question.payload;
    this.headers = isJsonObject(headers) ? (headers as Record<string, string>) : {};
    this.body = body;
  }

  /** Goes on, with the changes if there are any. A body that is not named keeps its exact bytes. */
  reply(changes: LlmStreamChanges = {}): Answer<'llm/stream'> {
    return new Answer({ type: '', change: ifGiven(changes, (sent) => changedMembers(sent, changes)) });
  }
}

// Absent means unchanged on this port, so an untouched body does not travel back.
function changedMembers(sent: JsonObject, { headers, body }: LlmStreamChanges): JsonObject | undefined {
  const sentHeaders = isJsonObject(sent['headers']) ? sent['headers'] : {};
  const newHeaders = Object.entries(headers ?? {}).filter(([name, value]) => sentHeaders[name.toLowerCase()] !== value);
  const newBody = body !== undefined && !jsonEqual(body, sent['body']);
  if (newHeaders.length === 0 && !newBody) return undefined;
  return {
    ...(newHeaders.length === 0 ? {} : { headers: { ...sentHeaders, ...lowerCased(newHeaders) } }),
    ...(newBody ? { body } : {}),
  };
}

function lowerCased(headers: readonly (readonly [string, string])[]): Record<string, string> {
  return Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
}
