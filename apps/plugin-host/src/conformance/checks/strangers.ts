import { randomUUID } from 'node:crypto';
import { isPort, plugin } from '@codedock/proto';
import { requireStillAnswers } from '../ask.js';
import type { Check } from '../check.js';

const answerMs = 5_000;

/** What comes from newer hosts and other sides of the protocol. */
export const strangerChecks: readonly Check[] = [
  {
    about: 'newer host',
    title: 'refuses a call it does not know, and lives',
    async run(specimen) {
      const problem = await specimen.requireAlive().connection.callUnknown(answerMs);
      if (problem !== '') throw new Error(problem);
      await requireStillAnswers(specimen);
    },
  },
  {
    about: 'newer host',
    title: 'lives through an event it does not know',
    async run(specimen) {
      const payload = Buffer.from('{"n":1}');
      await specimen.plugin.notify(eventOf('conformance.not_yet_invented', payload), answerMs);
      await requireStillAnswers(specimen);
    },
  },
  {
    about: 'events',
    title: 'lives through every event it subscribes to',
    skipped: ({ plugin: { manifest } }) =>
      manifest.subscriptions.every(isPort) ? 'it subscribes to no event' : undefined,
    async run(specimen) {
      for (const event of specimen.plugin.manifest.subscriptions.filter((name) => !isPort(name))) {
        for (const payload of ['{}', '{"callId":"c","text":"ü🦫","unknown":[null]}'])
          await specimen.plugin.notify(eventOf(event, Buffer.from(payload)), answerMs);
      }
      await requireStillAnswers(specimen);
    },
  },
  {
    about: 'tools',
    title: 'fails a call of a tool it does not have, and lives',
    async run(specimen) {
      const input = plugin.MethodInput.fromPartial({
        sessionId: randomUUID(),
        callId: 'call-1',
        name: 'not_yet_invented',
        arguments: Buffer.from('{}'),
      });
      const { outcome, result } = await specimen.plugin.executeTool(input, answerMs);
      if (outcome !== 'answered' || result.success)
        throw new Error(`it ${result.success ? 'succeeded' : `did not answer: ${result.error}`}; answer with an error`);
      await requireStillAnswers(specimen);
    },
  },
];

function eventOf(type: string, payload: Buffer): plugin.Envelope {
  return plugin.Envelope.fromPartial({ type, sessionId: randomUUID(), runId: randomUUID(), payload });
}
