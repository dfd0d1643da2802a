import { isJsonObject, type JsonValue } from '../json.js';
import { Answer, ifGiven, overlay } from './answer.js';
import { PortInput, type Question } from './port-input.js';
import { readCall, readResult, spellingOf, type ToolCall, type ToolResult } from './tool-call.js';

/** What may change at tools/post-execute. A member that is absent keeps its value. */
export interface ToolPostExecuteChanges {
  readonly output?: JsonValue | undefined;
  readonly success?: boolean | undefined;
  /** Null = no error. */
  readonly error?: string | null | undefined;
}

/** The result of an execution attempt, before it is stored. */
export class ToolPostExecute extends PortInput {
  readonly call: ToolCall;
  readonly result: ToolResult;

  /** @internal */
  constructor(question: Question) {
    super(question);
    this.call = readCall(question.payload);
    this.result = readResult(question.payload);
  }

  /** Goes on, with the changes if there are any. */
  reply(changes: ToolPostExecuteChanges = {}): Answer<'tools/post-execute'> {
    const { output, success, error } = changes;
    return new Answer({
      type: '',
      change: ifGiven(changes, (sent) => {
        const result = isJsonObject(sent['result']) ? sent['result'] : {};
        const changed = overlay(result, {
          [spellingOf(result, 'Output')]:
            output === null && !(spellingOf(result, 'Output') in result) ? undefined : output,
          [spellingOf(result, 'Success')]: success,
          [spellingOf(result, 'Error')]: error === null ? '' : error,
        });
        return changed === undefined ? undefined : { ...sent, result: changed };
      }),
    });
  }
}
