import { Answer, ifGiven, overlayTexts } from './answer.js';
import { type Message, readMessages, readText } from './message.js';
import { PortInput, type Question } from './port-input.js';

/** What may change at agent/request. */
export interface AgentRequestChanges {
  readonly systemPrompt?: string | undefined;
  /** The whole list: repeat what is to stay. */
  readonly messages?: readonly Message[] | undefined;
}

/** The context of one model call. What changes here serves this call only and is not stored. */
export class AgentRequest extends PortInput {
  readonly systemPrompt: string;
  readonly messages: readonly Message[];

  /** @internal */
  constructor(question: Question) {
    super(question);
    this.systemPrompt = readText(question.payload, 'system_prompt');
    this.messages = readMessages(question.payload, 'messages');
  }

  /** Goes on, with the changes if there are any. */
  reply(changes: AgentRequestChanges = {}): Answer<'agent/request'> {
    return new Answer({
      type: '',
      change: ifGiven(changes, (sent) =>
        overlayTexts(sent, { system_prompt: changes.systemPrompt, messages: changes.messages }),
      ),
    });
  }
}
