// Faults against a whole system of real processes: is anything lost, done twice, written by the dead, or shown wrongly?
// The last line is one JSON value; anything but none ends it with exit code 1.
import { parseArgs } from 'node:util';
import { startTestServices } from '@codedock/testkit';
import type { Profile } from '../profiles.js';
import { CASES } from './cases/index.js';
import { runSuite } from './driver.js';
import type { Tier } from './fault-case.js';

const TIERS: readonly Tier[] = ['short', 'long'];
const PROFILES: readonly Profile[] = ['embedded', 'redis'];

/** Of a flood: a run for each quiet tenant, and as many as are queued by default before further ones are refused. */
const LEAST_RUNS = 80;
const MOST_RUNS = 100_000;

interface Wanted {
  readonly tier: Tier;
  readonly profiles: readonly Profile[];
  readonly only: readonly string[];
  readonly seed: number;
  readonly runs?: number;
}

function wanted(): Wanted {
  const { values } = parseArgs({
    options: {
      tier: { type: 'string', default: 'short' },
      only: { type: 'string' },
      profile: { type: 'string' },
      seed: { type: 'string' },
      runs: { type: 'string' },
    },
  });
  const only = values.only?.split(',') ?? [];
  const unknown = only.filter((id) => !CASES.some((each) => each.id === id));
  if (unknown.length > 0) throw refused(`--only=${unknown.join(',')}`, CASES.map(({ id }) => id).join(', '));
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed);
  if (!Number.isSafeInteger(seed)) throw refused(`--seed=${values.seed}`, 'a whole number');
  const runs = values.runs === undefined ? undefined : Number(values.runs);
  if (runs !== undefined && !(Number.isInteger(runs) && runs >= LEAST_RUNS && runs <= MOST_RUNS)) {
    throw refused(`--runs=${values.runs}`, `a whole number from ${LEAST_RUNS} to ${MOST_RUNS}`);
  }
  return {
    ...(runs === undefined ? {} : { runs }),
    tier: oneOf('tier', values.tier, TIERS),
    profiles: values.profile === undefined ? PROFILES : [oneOf('profile', values.profile, PROFILES)],
    only,
    seed,
  };
}

function oneOf<T extends string>(option: string, value: string, known: readonly T[]): T {
  const found = known.find((each) => each === value);
  if (found === undefined) throw refused(`--${option}=${value}`, known.join(', '));
  return found;
}

function refused(given: string, right: string): Error {
  return new Error(`${given} is of no use. Give: ${right}.`);
}

async function main(): Promise<void> {
  const { tier, profiles, only, seed, runs } = wanted();
  const print = (line: string) => console.log(line);
  print(
    `faults  tier ${tier}, seed ${seed}; the same choices again: npm run test:faults -- --tier=${tier} --seed=${seed}`,
  );
  const services = await startTestServices();
  try {
    const missing = 'skipped' in services.redis ? services.redis.skipped : undefined;
    if (missing !== undefined && profiles.includes('redis')) print(`the profile redis is left out: ${missing}`);
    const result = await runSuite({
      cases: only.length === 0 ? CASES : CASES.filter(({ id }) => only.includes(id)),
      tier,
      profiles: missing === undefined ? profiles : profiles.filter((profile) => profile !== 'redis'),
      seed,
      ...(runs === undefined ? {} : { runs }),
      print,
    });
    print(`${result.cases - result.failed} passed, ${result.failed} failed`);
    print(
      JSON.stringify({
        cases: result.cases,
        lost: result.lost,
        doubled: result.doubled,
        stale_writes: result.staleWrites,
        sse_gaps: result.sseGaps,
        sse_dups: result.sseDups,
        resume_p99_ms: result.resumeP99Ms,
        cancel_p99_ms: result.cancelP99Ms,
      }),
    );
    process.exitCode = result.failed === 0 ? 0 : 1;
  } finally {
    await services.stop();
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
