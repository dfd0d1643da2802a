import type { Logger } from '../logging/index.js';

/** What stops one part. The signal aborts when the step's time is over. */
export type ShutdownStep = (signal: AbortSignal) => void | Promise<void>;

/** How a program shuts down. */
export interface ShutdownOptions {
  readonly logger: Logger;
  /** Milliseconds for all steps together. Default 30,000. */
  readonly deadlineMs?: number;
  /** Ends the process. Default `process.exit`. */
  readonly exit?: (code: number) => void;
}

interface RegisteredStep {
  readonly name: string;
  readonly step: ShutdownStep;
}

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;

/**
 * Stops the parts of a program in the reverse order of their registration, so what was started last, and may need the
 * others, stops first. Runs once. A failing step is logged and the next one runs; at the deadline the rest is given up.
 */
export class Shutdown {
  readonly #steps: RegisteredStep[] = [];
  readonly #started = new AbortController();
  readonly #logger: Logger;
  readonly #deadlineMs: number;
  readonly #exit: (code: number) => void;
  #running: Promise<boolean> | undefined;

  constructor({ logger, deadlineMs = 30_000, exit = (code) => process.exit(code) }: ShutdownOptions) {
    this.#logger = logger;
    this.#deadlineMs = deadlineMs;
    this.#exit = exit;
  }

  /** Aborted as soon as the shutdown begins. */
  get begun(): AbortSignal {
    return this.#started.signal;
  }

  /** Adds a step. Later steps run earlier. After the shutdown has begun a new step is refused. */
  register(name: string, step: ShutdownStep): void {
    if (this.begun.aborted) {
      throw new Error(`The shutdown has begun; "${name}" cannot be registered any more.`);
    }
    this.#steps.push({ name, step });
  }

  /** Runs the steps; every call returns the same result: true when all steps ended well in time. */
  run(reason: string): Promise<boolean> {
    this.#running ??= this.#runSteps(reason);
    return this.#running;
  }

  /** Runs the steps and ends the process: code 0, or 1 when a step failed or the time was over. */
  async runAndExit(reason: string): Promise<void> {
    this.#exit((await this.run(reason)) ? 0 : 1);
  }

  /** Shuts down on the first SIGTERM or SIGINT; the second one ends the process at once (143 or 130). */
  listen(): void {
    let received = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        received += 1;
        if (received > 1) {
          this.#logger.warn({ signal }, 'second signal: exiting at once');
          this.#exit(128 + SIGNAL_NUMBERS[signal]);
          return;
        }
        void this.runAndExit(signal);
      });
    }
  }

  async #runSteps(reason: string): Promise<boolean> {
    const end = performance.now() + this.#deadlineMs;
    this.#logger.info({ reason, steps: this.#steps.length }, 'shutting down');
    this.#started.abort();
    let clean = true;
    for (const { name, step } of [...this.#steps].reverse()) {
      // A timer may fire a fraction of a millisecond early; what is left then is no time for a step.
      const left = Math.floor(end - performance.now());
      if (left <= 0) {
        this.#logger.error({ step: name }, 'shutdown deadline is over: step skipped');
        clean = false;
        continue;
      }
      clean = (await this.#runStep(name, step, left)) && clean;
    }
    this.#logger.info({ clean }, 'shut down');
    return clean;
  }

  async #runStep(name: string, step: ShutdownStep, leftMs: number): Promise<boolean> {
    const over = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => {
        over.abort();
        resolve('late');
      }, leftMs);
    });
    try {
      const running = Promise.resolve().then(() => step(over.signal));
      // A step that fails after it was given up must not become an unhandled rejection.
      running.catch(() => undefined);
      if ((await Promise.race([running, late])) === 'late') {
        this.#logger.error({ step: name }, 'shutdown deadline is over: step given up');
        return false;
      }
      return true;
    } catch (error) {
      this.#logger.error({ step: name, err: error }, 'shutdown step failed');
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}
