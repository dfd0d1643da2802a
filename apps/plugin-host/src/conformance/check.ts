import type { Specimen } from './specimen.js';

/** One thing that must hold for a plugin. */
export interface Check {
  /** Part of the protocol it belongs to. */
  readonly about: string;
  readonly title: string;
  /** Why it says nothing about this plugin; undefined where it does. */
  skipped?(specimen: Specimen): string | undefined;
  /** @throws Error saying what does not hold. */
  run(specimen: Specimen): Promise<void>;
  /** The process may end in it. */
  readonly endsProcess?: boolean;
}

/** How a check ended. */
export interface CheckResult {
  readonly about: string;
  readonly title: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it failed or was skipped. */
  readonly reason?: string;
  /** Milliseconds. */
  readonly ms: number;
}

/** Runs one check. Never rejects. */
export async function resultOf(check: Check, specimen: Specimen): Promise<CheckResult> {
  const { about, title } = check;
  const skipped = check.skipped?.(specimen);
  if (skipped !== undefined) return { about, title, outcome: 'skipped', reason: skipped, ms: 0 };
  return measured(about, title, async () => {
    await specimen.revive();
    await check.run(specimen);
    if (check.endsProcess !== true) specimen.requireAlive();
  });
}

/** The result of an act that fails by throwing. */
export async function measured(about: string, title: string, act: () => Promise<void>): Promise<CheckResult> {
  const startedAt = performance.now();
  const ended = (outcome: 'passed' | 'failed', reason?: string): CheckResult => ({
    about,
    title,
    outcome,
    ...(reason === undefined ? {} : { reason }),
    ms: Math.round(performance.now() - startedAt),
  });
  try {
    await act();
    return ended('passed');
  } catch (error) {
    return ended('failed', error instanceof Error ? error.message : String(error));
  }
}
