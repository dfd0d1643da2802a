import { setTimeout as delay } from 'node:timers/promises';

/** How long and how often to look. */
export interface EventuallyOptions {
  /** Milliseconds until giving up. Default 10,000. */
  readonly timeoutMs?: number;
  /** Milliseconds between two looks. Default 20. */
  readonly intervalMs?: number;
  /** What is awaited, for the message of a failure. */
  readonly what?: string;
}

/**
 * Repeats `attempt` until it neither throws nor returns `false`, and returns what it returned.
 * At the deadline it throws the last failure, so an `expect` inside reports its own difference.
 */
export async function eventually<T>(
  attempt: () => T | Promise<T>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, false>> {
  const { timeoutMs = 30_000, intervalMs = 20, what = 'a condition' } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let failure: unknown = new Error('it stayed false');
    try {
      const value = await attempt();
      if (value !== false) {
        return value as Exclude<T, false>;
      }
    } catch (error) {
      failure = error;
    }
    if (performance.now() >= deadline) {
      if (failure instanceof Error) {
        failure.message = `Waited ${timeoutMs} ms for ${what}: ${failure.message}`;
      }
      throw failure;
    }
    await delay(intervalMs);
  }
}

/** Repeats `look` until it returns something other than `undefined`, and returns that. */
export function eventuallyDefined<T>(
  look: () => T | undefined | Promise<T | undefined>,
  options: EventuallyOptions = {},
): Promise<T> {
  return eventually(async () => {
    const value = await look();
    if (value === undefined) {
      throw new Error('it stayed undefined');
    }
    return { value };
  }, options).then(({ value }) => value);
}

/** Settles like `promise`, or rejects after `timeoutMs` with a message that names `what`. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`Waited ${timeoutMs} ms for ${what}.`)), timeoutMs);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
