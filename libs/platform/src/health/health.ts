import { redactText } from '../logging/index.js';

/** Whether something works: `true`, or a short reason why not. Throwing counts as not. */
export type HealthCheck = () => true | string | Promise<true | string>;

/** The answer of /healthz or /readyz. */
export interface HealthReport {
  readonly status: 'ok' | 'failing';
  /** Per check: `ok`, or why it fails. */
  readonly checks: Readonly<Record<string, string>>;
}

const CHECK_TIMEOUT_MS = 2_000;

/**
 * The checks of a program. Live: the process itself works (a failure restarts it). Ready: it can take work now;
 * what it needs belongs here, so that a database outage does not restart every process.
 */
export class Health {
  readonly #live = new Map<string, HealthCheck>();
  readonly #ready = new Map<string, HealthCheck>();
  #draining = false;

  /** Adds a check of the process itself. */
  addLiveness(name: string, check: HealthCheck): void {
    this.#live.set(name, check);
  }

  /** Adds a check of something that work needs. */
  addReadiness(name: string, check: HealthCheck): void {
    this.#ready.set(name, check);
  }

  /** From now on not ready; for the beginning of a shutdown. */
  drain(): void {
    this.#draining = true;
  }

  live(): Promise<HealthReport> {
    return report(this.#live);
  }

  async ready(): Promise<HealthReport> {
    const { status, checks } = await report(this.#ready);
    return this.#draining ? { status: 'failing', checks: { ...checks, drain: 'shutting down' } } : { status, checks };
  }
}

async function report(checks: ReadonlyMap<string, HealthCheck>): Promise<HealthReport> {
  const results = await Promise.all([...checks].map(async ([name, check]) => [name, await outcome(check)] as const));
  return {
    status: results.every(([, result]) => result === 'ok') ? 'ok' : 'failing',
    checks: Object.fromEntries(results),
  };
}

async function outcome(check: HealthCheck): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve(`no answer within ${CHECK_TIMEOUT_MS} ms`), CHECK_TIMEOUT_MS);
    });
    const result = await Promise.race([Promise.resolve().then(check), late]);
    return result === true ? 'ok' : redactText(result);
  } catch (error) {
    return redactText(error instanceof Error ? error.message : String(error));
  } finally {
    clearTimeout(timer);
  }
}
