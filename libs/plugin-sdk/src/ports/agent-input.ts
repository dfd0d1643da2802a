import { Answer, ifGiven, overlayTexts } from './answer.js';
import { readText } from './message.js';
import { PortInput, type Question } from './port-input.js';

/** What may change at agent/input. */
export interface AgentInputChanges {
  /** Not empty. */
  readonly content?: string | undefined;
  /** Empty = unchanged. */
  readonly mode?: string | undefined;
}

type Reply = Answer<'agent/input'>;

/** A user's message, before anything was written or cancelled because of it. */
export class AgentInput extends PortInput {
  readonly content: string;
  /** Empty when the request names none. */
  readonly mode: string;

  /** @internal */
  constructor(question: Question) {
    super(question);
    this.content = readText(question.payload, 'content');
    this.mode = readText(question.payload, 'mode');
  }

  /** Goes on, with the changes if there are any. */
  reply(changes: AgentInputChanges = {}): Reply {
    const { content, mode } = changes;
    return new Answer({
      type: '',
      change: ifGiven(changes, (sent) => overlayTexts(sent, { content, mode: mode === '' ? undefined : mode })),
    });
  }

  /** The plugin has dealt with the message: the caller gets 200 and no run is made. */
  handle(reason?: string): Reply {
    return new Answer({ type: 'input/handled', reason });
  }

  /** Refuses the message: 403 with the reason. */
  block(reason: string): Reply {
    return new Answer({ type: 'input/blocked', reason });
  }
}
