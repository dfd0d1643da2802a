import { jsonEqual } from '../json.js';

import type { PluginDefinition } from '../plugin-definition.js';
import { type Decision, decide } from './decide.js';
import { type EnvelopeJson, toEnvelope } from './envelope-json.js';
import { testPlugin } from './test-plugin.js';

/** A question that was recorded, with the answer of that time if it was kept. */
export interface Recorded {
  readonly question: EnvelopeJson;
  readonly answer?: EnvelopeJson;
}

/** How a plugin answers a recorded question now. */
export interface Replayed {
  readonly recorded: Recorded;
  /** Absent when the handler threw. */
  readonly decision?: Decision;
  /** What the handler threw. */
  readonly error?: Error;
  /** Whether the decision is the recorded one (reason aside); absent when no answer was kept. */
  readonly agrees?: boolean;
}

/** Reads recordings: one JSON object `{question, answer?}` a line, empty lines skipped. @throws TypeError naming the line. */
export function readRecording(text: string): Recorded[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      const recorded = JSON.parse(line) as Recorded;
      if (typeof recorded.question?.type !== 'string') throw new TypeError('it has no question with a type');
      return [recorded];
    } catch (error) {
      throw new TypeError(`line ${index + 1} of the recording is of no use: ${(error as Error).message}`);
    }
  });
}

/** Asks a plugin everything that was recorded, in order. */
export async function replay(definition: PluginDefinition, recording: readonly Recorded[]): Promise<Replayed[]> {
  const tested = testPlugin(definition);
  const replayed: Replayed[] = [];
  for (const recorded of recording) {
    try {
      const decision = await tested.ask(recorded.question);
      replayed.push({ recorded, decision, ...agreement(recorded, decision) });
    } catch (error) {
      replayed.push({ recorded, error: error as Error, ...(recorded.answer === undefined ? {} : { agrees: false }) });
    }
  }
  return replayed;
}

function agreement({ question, answer }: Recorded, decision: Decision): { agrees?: boolean } {
  if (answer === undefined) return {};
  const then = decide(toEnvelope(question), toEnvelope(answer));
  const same =
    then.decision === decision.decision &&
    jsonEqual(then.payload, decision.payload) &&
    jsonEqual(then.skipResult, decision.skipResult);
  return { agrees: same };
}
