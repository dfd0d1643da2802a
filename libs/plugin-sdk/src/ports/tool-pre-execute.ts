import { isJsonObject, type JsonObject, type JsonValue } from '../json.js';
import { Answer, ifGiven, overlay, type PayloadChange } from './answer.js';
import { PortInput, type Question } from './port-input.js';
import { readCall, type ToolCall } from './tool-call.js';

/** What may change at tools/pre-execute. Changed arguments are validated again before anything is executed. */
export interface ToolPreExecuteChanges {
  readonly arguments?: JsonValue | undefined;
}

type Reply = Answer<'tools/pre-execute'>;

/** A tool call after validation and permission, before approval and execution. */
export class ToolPreExecute extends PortInput {
  readonly call: ToolCall;

  /** @internal */
  constructor(question: Question) {
    super(question);
    this.call = readCall(question.payload);
  }

  /** Lets the call go on, with other arguments if they are given. */
  reply(changes: ToolPreExecuteChanges = {}): Reply {
    return new Answer({ type: '', change: changedArguments(changes) });
  }

  /** Refuses the call: the model gets a failed result with the reason. */
  deny(reason: string): Reply {
    return new Answer({ type: 'tools/denied', reason });
  }

  /** Puts the call, with other arguments if they are given, before a person. Later plugins are still asked. */
  askApproval(reason: string, changes: ToolPreExecuteChanges = {}): Reply {
    return new Answer({ type: 'tools/ask', reason, change: changedArguments(changes) });
  }

  /** Does not execute; the model gets this as a successful result (a default text when absent). */
  skip(result?: JsonValue, reason?: string): Reply {
    return new Answer({ type: 'tools/skipped', reason, skipResult: result });
  }

  /** Ends the run as blocked. */
  abort(reason: string): Reply {
    return new Answer({ type: 'run/aborted', reason });
  }
}

function changedArguments(changes: ToolPreExecuteChanges): PayloadChange | undefined {
  return ifGiven(changes, (sent: JsonObject) => {
    const call = isJsonObject(sent['call']) ? sent['call'] : {};
    const changed = overlay(call, { arguments: changes.arguments });
    return changed === undefined ? undefined : { ...sent, call: changed };
  });
}
