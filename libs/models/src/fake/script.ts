import {
  AppError,
  type ErrorCode,
  isErrorCode,
  isJsonObject,
  type JsonValue,
  type ModelRequest,
  textOf,
  type Usage,
} from '@codedock/domain';

/** A tool call of a scripted reply. `rawArguments` sends text that need not be JSON. */
export type FakeCall =
  | { readonly name: string; readonly arguments?: JsonValue }
  | { readonly name: string; readonly rawArguments: string };

/** One reply of the scripted provider. */
export interface FakeStep {
  readonly text?: string;
  /** The last user message follows the text: shows what reached the model. */
  readonly echo?: boolean;
  /** Text in these pieces, one delta each; wins over `text`. */
  readonly chunks?: readonly string[];
  readonly toolCalls?: readonly FakeCall[];
  /** Milliseconds before the first piece. */
  readonly delayMs?: number;
  /** Milliseconds before every further piece. */
  readonly chunkDelayMs?: number;
  /** The reply fails with this code after the pieces were sent. */
  readonly fail?: ErrorCode;
  /** After the pieces nothing more comes, until the call is aborted. */
  readonly hang?: boolean;
  /** Together with `hang`: not even an abort ends the call. */
  readonly ignoreAbort?: boolean;
  readonly usage?: Partial<Usage>;
}

/** Text that turns the rest of a user message into a script. */
const PREFIX = 'fake:';
const BEYOND: FakeStep = { text: 'done' };

/**
 * The step that answers a request. The script is the JSON array after `fake:` in the last user message, else the
 * model's `options.script`; its index is the number of the turn, or of replies this run already has, so a resumed run
 * goes on where it was. Beyond the script the answer is `done`; without a script the last user message is echoed. A
 * summary is never scripted.
 * @throws AppError `provider_rejected` for a script that is no array of steps.
 */
export function stepFor(request: ModelRequest): FakeStep {
  if (request.purpose === 'summary') return { text: `Summary of ${request.messages.length - 1} messages.` };
  const asked = request.messages.findLast((message) => message.role === 'user');
  const text = asked === undefined ? '' : textOf(asked);
  const script = text.startsWith(PREFIX) ? inlineScript(text.slice(PREFIX.length)) : request.model.options?.['script'];
  if (script === undefined) return { chunks: pieces(`You said: ${text}`) };
  if (!Array.isArray(script)) throw rejected('it is no array of steps');
  const index = request.turn === undefined ? repliesOf(request) : request.turn - 1;
  const step = script[index];
  if (step === undefined) return BEYOND;
  const chosen = checked(step, index);
  return chosen.echo === true ? { ...chosen, chunks: pieces(`${chosen.text ?? ''}${text}`) } : chosen;
}

function repliesOf({ messages, runId }: ModelRequest): number {
  return messages.filter((message) => message.role === 'assistant' && message.runId === runId).length;
}

function inlineScript(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (cause) {
    throw rejected('it is no JSON', cause);
  }
}

function checked(step: JsonValue, index: number): FakeStep {
  if (!isJsonObject(step)) throw rejected(`step ${index} is no object`);
  if (step['fail'] !== undefined && !(typeof step['fail'] === 'string' && isErrorCode(step['fail']))) {
    throw rejected(`step ${index} fails with a code that does not exist`);
  }
  return step as unknown as FakeStep;
}

function rejected(what: string, cause?: unknown): AppError {
  return new AppError('provider_rejected', `The script of the fake provider cannot be used: ${what}.`, { cause });
}

/** The text in at most four pieces, never cut inside a surrogate pair. */
export function pieces(text: string): string[] {
  const points = [...text];
  const size = Math.max(1, Math.ceil(points.length / 4));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) =>
    points.slice(i * size, (i + 1) * size).join(''),
  );
}
