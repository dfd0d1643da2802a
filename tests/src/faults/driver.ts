import { percentile } from '../bench/statistics.js';
import type { Profile } from '../profiles.js';
import { checkHistory, type Finding } from './checker/check-history.js';
import type { Harm } from './checker/invariant.js';
import type { CaseContext, CaseReport, FaultCase, Tier } from './fault-case.js';
import { type FaultSystem, startFaultSystem } from './fault-system.js';
import { seededRandom } from './random.js';

/** What is to be run. */
export interface SuiteOptions {
  readonly cases: readonly FaultCase[];
  readonly tier: Tier;
  readonly profiles: readonly Profile[];
  readonly seed: number;
  /** Runs of a flood, instead of the tier's. */
  readonly runs?: number;
  /** Gets every line of the report. */
  readonly print: (line: string) => void;
}

/** The suite's result; its last line of output. Times are NaN, hence null in JSON, when nothing was measured. */
export interface SuiteResult {
  readonly cases: number;
  readonly failed: number;
  readonly lost: number;
  readonly doubled: number;
  readonly staleWrites: number;
  readonly sseGaps: number;
  readonly sseDups: number;
  readonly resumeP99Ms: number;
  readonly cancelP99Ms: number;
}

type Counts = Record<Harm, number>;

interface CaseOutcome {
  readonly id: string;
  readonly profile: Profile;
  readonly report: CaseReport;
  readonly harm: Counts;
  readonly problems: readonly string[];
  readonly durationMs: number;
}

/**
 * Runs the cases one after another and judges the history after each. The profiles go side by side: most of the time is
 * waiting for leases to run out.
 */
export async function runSuite(options: SuiteOptions): Promise<SuiteResult> {
  const outcomes: CaseOutcome[] = [];
  await Promise.all(options.profiles.map((profile) => runProfile(profile, options, outcomes)));
  return resultOf(outcomes);
}

async function runProfile(profile: Profile, options: SuiteOptions, outcomes: CaseOutcome[]): Promise<void> {
  const stage = new Stage(profile, options.print);
  for (const each of options.cases) {
    if (!each.tiers.includes(options.tier) || !each.profiles.includes(profile)) continue;
    const outcome = await runCase(each, stage, options);
    outcomes.push(outcome);
    for (const line of shown(each, outcome)) options.print(line);
  }
  const left = await stage.clear();
  if (left.problems.length > 0) {
    outcomes.push({ id: 'end', profile, report: { detail: '' }, ...left, durationMs: 0 });
    for (const problem of left.problems) options.print(`  ${problem}`);
  }
}

const startStanding = (profile: Profile) => startFaultSystem(profile, { ownPostgres: true });

/** The systems of one profile. */
class Stage {
  readonly profile: Profile;
  readonly #print: SuiteOptions['print'];
  #standing: FaultSystem | undefined;
  #own: FaultSystem[] = [];

  constructor(profile: Profile, print: SuiteOptions['print']) {
    this.profile = profile;
    this.#print = print;
  }

  async standing(): Promise<FaultSystem> {
    // A machine that is busy starting both profiles may be too slow for one of the many connections.
    this.#standing ??= await startStanding(this.profile).catch((error: unknown) => {
      this.#print(`  the standing system of ${this.profile} is started again: ${(error as Error).message}`);
      return startStanding(this.profile);
    });
    return this.#standing;
  }

  async start(options?: Parameters<CaseContext['start']>[0]): Promise<FaultSystem> {
    const left = await this.#standing?.end();
    this.#standing = undefined;
    if (left !== undefined && left.length > 0) throw new Error(`the standing system left ${left.join(', ')}`);
    const started = await startFaultSystem(this.profile, options);
    this.#own.push(started);
    return started;
  }

  /**
   * Waits until all is calm, judges every system, ends those of the case and a standing one that did wrong. `found` is what
   * the case has had judged itself.
   */
  async judge(failed: boolean, found: readonly Finding[]): Promise<{ harm: Counts; problems: string[] }> {
    const harm = noHarm();
    const problems: string[] = [];
    const add = (findings: readonly Finding[]) => {
      for (const { id, harm: kind, what } of findings) {
        harm[kind] += 1;
        problems.push(`${id}: ${what}`);
      }
    };
    add(found);
    for (const system of [...(this.#standing === undefined ? [] : [this.#standing]), ...this.#own]) {
      try {
        // A case that failed may have left calls that wait, and processes that sleep.
        for (const runner of system.aliveRunners()) runner.signal('SIGCONT');
        await system.sink.release();
        await system.whole();
        await system.settled();
      } catch (error) {
        problems.push((error as Error).message);
      }
      add(checkHistory(await system.history()));
    }
    for (const own of this.#own.splice(0)) add(leftBehind(await own.end()));
    if ((failed || problems.length > 0) && this.#standing !== undefined) {
      const ended = this.#standing;
      this.#standing = undefined;
      await ended.end();
    }
    return { harm, problems };
  }

  async clear(): Promise<{ harm: Counts; problems: string[] }> {
    const findings = leftBehind((await this.#standing?.end()) ?? []);
    this.#standing = undefined;
    const harm = noHarm();
    harm.other += findings.length;
    return { harm, problems: findings.map(({ id, what }) => `${id}: ${what}`) };
  }
}

function leftBehind(left: readonly string[]): Finding[] {
  return left.map((each) => ({ id: 'I17', harm: 'other', what: `left behind: ${each}` }));
}

const noHarm = (): Counts => ({ lost: 0, doubled: 0, stale_write: 0, sse_gap: 0, sse_dup: 0, other: 0 });

async function runCase(each: FaultCase, stage: Stage, { tier, seed, runs, print }: SuiteOptions): Promise<CaseOutcome> {
  const began = performance.now();
  const problems: string[] = [];
  const found: Finding[] = [];
  let report: CaseReport = { detail: '' };
  const context: CaseContext = {
    tier,
    profile: stage.profile,
    ...(runs === undefined ? {} : { runs }),
    // A case chooses the same whether it is run alone or among others.
    random: seededRandom(seed + [...each.id].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7)),
    pick: (of) => of[tier],
    standing: () => stage.standing(),
    start: (options) => stage.start(options),
    judge: (history) => void found.push(...checkHistory(history)),
    note: (line) => print(`  ${line}`),
  };
  try {
    report = await each.run(context);
  } catch (error) {
    problems.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  const judged = await stage.judge(problems.length > 0, found);
  return {
    id: each.id,
    profile: stage.profile,
    report,
    harm: {
      lost: judged.harm.lost + (report.lost ?? 0),
      doubled: judged.harm.doubled + (report.doubled ?? 0),
      stale_write: judged.harm.stale_write + (report.staleWrites ?? 0),
      sse_gap: judged.harm.sse_gap + (report.sseGaps ?? 0),
      sse_dup: judged.harm.sse_dup + (report.sseDups ?? 0),
      other: judged.harm.other,
    },
    problems: [...problems, ...judged.problems],
    durationMs: performance.now() - began,
  };
}

function isWell({ harm, problems }: CaseOutcome): boolean {
  return problems.length === 0 && Object.values(harm).every((count) => count === 0);
}

function shown({ title }: FaultCase, outcome: CaseOutcome): string[] {
  const { id, profile, report, harm, problems, durationMs } = outcome;
  const times = [
    ...percentiles('resume', report.resumeMs),
    ...percentiles('cancel', report.cancelMs),
    ...(report.recoveryMs === undefined ? [] : [`recovery ${Math.round(report.recoveryMs)} ms`]),
  ];
  const harmed = Object.entries(harm).filter(([, count]) => count > 0);
  return [
    [
      isWell(outcome) ? 'ok  ' : 'FAIL',
      id.padEnd(4),
      profile.padEnd(8),
      `${(durationMs / 1_000).toFixed(1)} s`.padStart(7),
      title,
      ...times,
      ...harmed.map(([kind, count]) => `${count} ${kind}`),
      ...(report.detail === '' ? [] : [report.detail]),
    ].join('  '),
    ...problems.map((problem) => `  ${problem}`),
  ];
}

function percentiles(name: string, samples: readonly number[] | undefined): string[] {
  if (samples === undefined || samples.length === 0) return [];
  return [`${name} p50 ${Math.round(percentile(samples, 0.5))} p99 ${Math.round(percentile(samples, 0.99))} ms`];
}

function resultOf(outcomes: readonly CaseOutcome[]): SuiteResult {
  const sum = (kind: Harm) => outcomes.reduce((total, { harm }) => total + harm[kind], 0);
  const p99 = (of: (report: CaseReport) => readonly number[] | undefined) => {
    const samples = outcomes.flatMap(({ report }) => of(report) ?? []);
    return Math.round(percentile(samples, 0.99));
  };
  return {
    cases: outcomes.filter(({ id }) => id !== 'end').length,
    failed: outcomes.filter((outcome) => !isWell(outcome)).length,
    lost: sum('lost'),
    doubled: sum('doubled'),
    staleWrites: sum('stale_write'),
    sseGaps: sum('sse_gap'),
    sseDups: sum('sse_dup'),
    resumeP99Ms: p99(({ resumeMs }) => resumeMs),
    cancelP99Ms: p99(({ cancelMs }) => cancelMs),
  };
}
