import { Answer, ifGiven, overlayTexts } from './answer.js';
import { type Message, readMessages, readText } from './message.js';
import { PortInput, type Question } from './port-input.js';

/** What may change at agent/pre-step. */
export interface AgentPreStepChanges {
  readonly systemPrompt?: string | undefined;
  /** The whole list: repeat what is to stay. See `hiddenText`. */
  readonly hidden?: readonly Message[] | undefined;
}

type Reply = Answer<'agent/pre-step'>;

/** A run that is about to start its loop. */
export class AgentPreStep extends PortInput {
  readonly systemPrompt: string;
  readonly hidden: readonly Message[];

  /** @internal */
  constructor(question: Question) {
    super(question);
    this.systemPrompt = readText(question.payload, 'system_prompt');
    this.hidden = readMessages(question.payload, 'hidden');
  }

  /** Goes on, with the changes if there are any. */
  reply(changes: AgentPreStepChanges = {}): Reply {
    return new Answer({
      type: '',
      change: ifGiven(changes, (sent) =>
        overlayTexts(sent, { system_prompt: changes.systemPrompt, hidden: changes.hidden }),
      ),
    });
  }

  /** Ends the run as blocked before its first model call. */
  block(reason: string): Reply {
    return new Answer({ type: 'run/blocked', reason });
  }
}
