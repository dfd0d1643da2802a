import { setTimeout as delay } from 'node:timers/promises';
import { descendantsOf, runs } from '../../process/process-table.js';
import { requireStillAnswers } from '../ask.js';
import type { Check } from '../check.js';

/** Milliseconds in which what was killed must be gone. */
const goneMs = 5_000;
const pollMs = 20;

/** How it behaves towards the process around it, and how it ends. They come last. */
export const endChecks: readonly Check[] = [
  {
    about: 'end',
    title: 'ignores SIGINT, which a terminal sends to everything it has started',
    skipped: ({ plugin }) => (plugin.transport === 'stdio' ? 'it speaks NDJSON on stdio' : undefined),
    async run(specimen) {
      const { pid } = specimen.requireAlive();
      process.kill(pid, 'SIGINT');
      await requireStillAnswers(specimen);
      // A signal is handled between two answers.
      await requireStillAnswers(specimen);
    },
  },
  {
    about: 'stdout',
    title: 'has written nothing on stdout but the protocol',
    async run(specimen) {
      const { bytes, beginning } = specimen.requireAlive().strayOutput;
      if (bytes > 0) throw new Error(`it wrote ${bytes} bytes, ${JSON.stringify(beginning)}; log to stderr`);
    },
  },
  {
    about: 'end',
    title: 'ends by itself when it is told to, and leaves no process',
    endsProcess: true,
    async run(specimen) {
      const generation = specimen.requireAlive();
      const started = [generation.pid, ...(await descendantsOf([generation.pid]))];
      await specimen.close();
      if (generation.termination !== 'exited')
        throw new Error(
          `it was killed: it has 2 s to answer ${specimen.plugin.transport === 'stdio' ? 'plugin.stop' : 'Shutdown'} and 2 s to end`,
        );
      const deadline = Date.now() + goneMs;
      for (;;) {
        const running = await Promise.all(started.map(runs));
        const left = started.filter((_, at) => running[at]);
        if (left.length === 0) return;
        if (Date.now() > deadline) throw new Error(`processes are left: ${left.join(', ')}`);
        await delay(pollMs);
      }
    },
  },
];
