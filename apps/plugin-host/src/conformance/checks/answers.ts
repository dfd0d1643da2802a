import type { JsonObject } from '@codedock/domain';
import { maxPayloadBytes, type Port, plugin } from '@codedock/proto';
import { envelopeOf, payloadOf, plainPayload, put, requireAnswer, requireStillAnswers } from '../ask.js';
import type { Check } from '../check.js';
import { eventsOf, texts, UNICODE, unusualEventsOf } from '../events.js';
import type { Specimen } from '../specimen.js';

const noPort = ({ ports }: Specimen) => (ports.length === 0 ? 'it subscribes to no gate' : undefined);
const rounds = 4;

/** What a plugin must do at every gate it subscribes to. */
export function answerChecks(specimen: Specimen): readonly Check[] {
  return [...specimen.ports.flatMap(checksOf), ...sharedChecks];
}

function checksOf<P extends Port>(port: P): Check[] {
  const check = (title: string, run: Check['run']): Check => ({ about: port, title, run });
  return [
    ...Object.entries(texts).map(([kind, text]) =>
      check(
        `answers ${kind === 'ascii' ? 'a plain text' : kind === 'unicode' ? 'every kind of character' : kind}`,
        async (specimen) => {
          await requireAnswer(specimen, port, payloadOf(port, eventsOf[port](text)));
        },
      ),
    ),
    check('answers the largest payload, or says that its own is too large', requireLargest(port)),
    ...Object.entries(unusualEventsOf[port]).map(([kind, event]) =>
      check(`answers ${kind}`, async (specimen) => {
        await requireAnswer(specimen, port, payloadOf(port, event));
      }),
    ),
    check('answers members it does not know', async (specimen) => {
      const payload = JSON.parse(plainPayload(port)) as JsonObject;
      await requireAnswer(specimen, port, JSON.stringify({ ...payload, x_future: { list: [1, UNICODE] } }));
    }),
    check('answers a host that says nothing of caller and scratchpad', async (specimen) => {
      const { principal, context, runId, turnId } = plugin.Envelope.create();
      await requireAnswer(specimen, port, plainPayload(port), { envelope: { principal, context, runId, turnId } });
    }),
    check('leaves alone what others keep in the scratchpad', async (specimen) => {
      const others = { 'conformance.kept': { ü: [1, null, UNICODE] }, 'conformance.too': 'x' };
      const { patch, notes } = await requireAnswer(specimen, port, plainPayload(port), { scratchpad: others });
      const touched = [...Object.keys(patch?.set ?? {}), ...(patch?.deleted ?? [])].filter((key) => key in others);
      if (touched.length > 0)
        throw new Error(`it changed ${touched.join(', ')}; send the other keys back as they came`);
      const dropped = notes.find((note) => note.includes('scratchpad'));
      if (dropped !== undefined) throw new Error(dropped);
    }),
    check('answers questions that are open at the same time, each with its own', async (specimen) => {
      const { maxInflight } = specimen.plugin.settings;
      for (let round = 0; round < rounds; round++) {
        const texts = Array.from({ length: maxInflight }, (_, at) => `question ${round}.${at}.`);
        const replies = await Promise.all(
          texts.map((text) => requireAnswer(specimen, port, payloadOf(port, eventsOf[port](text)))),
        );
        for (const [at, { payload }] of replies.entries()) {
          const foreign = texts.find((text, of) => of !== at && payload.includes(text));
          if (foreign !== undefined) throw new Error(`the answer to "${texts[at]}" holds "${foreign}"`);
        }
      }
    }),
  ];
}

function requireLargest<P extends Port>(port: P): Check['run'] {
  return async (specimen) => {
    const frame = Buffer.byteLength(payloadOf(port, eventsOf[port]('')));
    const payload = payloadOf(port, eventsOf[port]('x'.repeat(maxPayloadBytes - frame)));
    await requireAnswer(specimen, port, payload).catch((error: Error) => {
      if (!error.message.startsWith('oversize: ')) throw error;
    });
  };
}

const sharedChecks: readonly Check[] = [
  {
    about: 'cancel',
    title: 'lives through questions that are cancelled, and answers the next',
    skipped: noPort,
    async run(specimen) {
      for (const port of specimen.ports) {
        const abort = new AbortController();
        const { maxInflight } = specimen.plugin.settings;
        const open = Array.from({ length: maxInflight }, () =>
          put(specimen, envelopeOf(port, plainPayload(port), {}), { signal: abort.signal }),
        );
        abort.abort();
        await Promise.all(open);
        await requireAnswer(specimen, port, plainPayload(port));
      }
    },
  },
  {
    about: 'cancel',
    title: 'lives through a question nobody waits for long enough',
    skipped: noPort,
    async run(specimen) {
      const [port] = specimen.ports;
      if (port === undefined) return;
      for (let n = 0; n < rounds; n++) await put(specimen, envelopeOf(port, plainPayload(port), {}), { timeoutMs: 1 });
      await requireAnswer(specimen, port, plainPayload(port));
    },
  },
  {
    about: 'host API',
    title: 'lives through a host API that is out of reach',
    skipped: noPort,
    async run(specimen) {
      specimen.hostApiDown = true;
      try {
        for (const port of specimen.ports) {
          const result = await put(specimen, envelopeOf(port, plainPayload(port), {}));
          if (result.kind === 'failed' && result.outcome !== 'error')
            throw new Error(`on ${port}, ${result.outcome}: ${result.reason}; answer, or fail with an error`);
        }
      } finally {
        specimen.hostApiDown = false;
      }
      await requireStillAnswers(specimen);
    },
  },
];
