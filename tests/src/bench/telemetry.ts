// What a collector that fails costs runs. One system, whose collector works, fails in a way, works, fails in another way …
// many times over: what is compared are the same processes, minutes apart. Each phase is compared with the two beside it
// in which the collector works, every ratio has the interval it lies in, and phases that work are compared with each
// other the same way: what that ratio is off by is chance, and nothing smaller can be seen.
// With --cost: the same runs with and without tracing, in turns, on two systems that differ in nothing else.
import { readFileSync } from 'node:fs';
import { openEventStream, type TestProcess } from '@codedock/testkit';
import { type Behaviour, type Collector, startCollector } from './collector.js';
import { JsonClient } from './json-client.js';
import { cpuMs } from './process-cpu.js';
import { type RunSystem, startRunSystem } from './run-system.js';
import { median, percentile, printTable, rounded } from './statistics.js';

const asJson = process.argv.includes('--json');
const quick = process.argv.includes('--quick');
const cost = process.argv.includes('--cost');
const WARM_UP_MS = quick ? 3_000 : 10_000;
/** After a change, until its consequences have settled: time-outs below are shorter. */
const SETTLE_MS = 1_500;
const COUNTED_MS = 3_000;
/** Runs open at a time: two cores are busy, so that what telemetry takes is missing elsewhere, and runs hardly wait for runs. */
const LANES = 2;
const RESAMPLES = 1_000;
/** Waiting for the disk scatters by more than telemetry could cost, and is the same with all collectors. */
const HASTY_DISK = { fsync: 'off', synchronous_commit: 'off' };
const TEXT = `fake:${JSON.stringify([{ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'pong it is' }])}`;

/** What phases are told apart by. */
type Condition = 'untraced' | Behaviour;

const FAILING = ['down', 'silent', 'late', 'endless'] as const satisfies readonly Condition[];
const SUBJECTS: readonly Condition[] = cost ? ['untraced'] : FAILING;
const CYCLES = quick ? 2 : cost ? 20 : 5;
const NAMES: Record<Condition, string> = {
  untraced: 'no tracing',
  works: 'works',
  down: 'is down',
  silent: 'never answers',
  late: 'answers after 1 s',
  endless: 'never stops answering',
};

/** What one phase measured. */
interface Phase {
  /** Milliseconds of each run, from the POST to its last event. */
  readonly times: readonly number[];
  /** CPU of gateway and runner, milliseconds. */
  readonly cpu: number;
  /** Resident MiB of both at its end. */
  readonly residentMib: number;
  /** Spans that both counted as dropped. */
  readonly dropped: number;
}

/** A ratio, and between what it lies with 95 %. */
type Ratio = readonly [ratio: number, from: number, to: number];

/** One collector's figures, as printed with --json; ratios are to a collector that works. */
interface Figures {
  readonly collector: string;
  readonly runs: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly p50_ratio: Ratio;
  readonly p99_ratio: Ratio;
  readonly cpu_ms_per_run: number;
  readonly cpu_ratio: Ratio;
  readonly rss_mib: number;
  readonly spans_dropped: number;
}

/** A phase, and the phases beside it in which the collector works. */
interface Compared {
  readonly own: Phase;
  readonly beside: readonly Phase[];
}

/** Gateway and runner with a client. */
interface Measured {
  readonly system: RunSystem;
  readonly client: JsonClient;
  readonly processes: readonly TestProcess[];
}

async function main(): Promise<void> {
  const closing: (() => unknown)[] = [];
  try {
    const collector = await startCollector();
    closing.push(() => collector.stop());
    const start = async (env: Record<string, string>): Promise<Measured> => {
      const system = await startRunSystem({ env, settings: HASTY_DISK });
      closing.push(() => system.stop());
      const client = new JsonClient(system.url, system.key);
      closing.push(() => client.close());
      return { system, client, processes: [system.gateway, await system.startRunner()] };
    };
    const traced = await start(tracedTo(collector));
    const untraced = cost ? await start({}) : traced;
    for (const subject of new Set([traced, untraced])) await work(subject, WARM_UP_MS);

    const phases: { readonly condition: Condition; readonly phase: Phase }[] = [];
    const measure = async (condition: Condition) => {
      await collector.behave(condition === 'untraced' ? 'works' : condition);
      if (condition === 'works') await taken(traced, collector);
      phases.push({ condition, phase: await measured(condition === 'untraced' ? untraced : traced) });
    };
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      for (const condition of SUBJECTS) {
        await measure('works');
        await measure(condition);
      }
    }
    await measure('works');

    const compared = (...conditions: readonly Condition[]): Compared[] =>
      phases.flatMap(({ condition, phase }, at) => {
        if (!conditions.includes(condition)) return [];
        // Beside a phase that works lie the next ones that do.
        const away = condition === 'works' ? 2 : 1;
        return [{ own: phase, beside: [at - away, at + away].flatMap((index) => phases[index]?.phase ?? []) }];
      });
    print([
      figuresOf('works', compared('works')),
      ...(cost ? [] : [figuresOf('fails, any way', compared(...FAILING))]),
      ...SUBJECTS.map((condition) => figuresOf(NAMES[condition], compared(condition))),
    ]);
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

function tracedTo({ url }: Collector): Record<string, string> {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_METRICS_EXPORTER: 'none',
    // What is being sent when the collector changes is over when counting begins.
    OTEL_EXPORTER_OTLP_TIMEOUT: '1200',
    OTEL_BSP_SCHEDULE_DELAY: '500',
  };
}

/** Runs until both services send again: they leave a collector that failed alone for seconds. */
async function taken(subject: Measured, collector: Collector): Promise<void> {
  let heard = false;
  const hearing = collector.heard('codedock-gateway', 'codedock-runner').then(() => {
    heard = true;
  });
  while (!heard) await work(subject, 100);
  await hearing;
}

async function measured(subject: Measured): Promise<Phase> {
  const { system, processes } = subject;
  await work(subject, SETTLE_MS);
  const droppedBefore = await spansDropped(system);
  const cpu = () => processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  const cpuBefore = cpu();
  const times = await work(subject, COUNTED_MS);
  return {
    times,
    cpu: cpu() - cpuBefore,
    residentMib: residentMib(processes),
    dropped: (await spansDropped(system)) - droppedBefore,
  };
}

/** Runs in all lanes, as many as begin within the time; milliseconds of each. */
async function work({ system, client }: Measured, forMs: number): Promise<number[]> {
  const times: number[] = [];
  const endsAt = performance.now() + forMs;
  const lane = async () => {
    while (performance.now() < endsAt) times.push(await oneRun(system, client));
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return times;
}

async function oneRun(system: RunSystem, client: JsonClient): Promise<number> {
  const { id } = await client.post<{ id: string }>('/v1/sessions', {});
  const stream = await openEventStream(`${system.url}/v1/sessions/${id}/events`, {
    headers: { authorization: `Bearer ${system.key}` },
  });
  const begin = performance.now();
  const posted = client.post(`/v1/sessions/${id}/runs`, { content: TEXT });
  const { at } = await stream.waitFor(({ event }) => event === 'run.completed');
  await posted;
  stream.close();
  return at - begin;
}

function residentMib(processes: readonly TestProcess[]): number {
  return processes.reduce((sum, { pid }) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return sum + Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
  }, 0);
}

/** Spans that the processes of a system have counted as dropped. */
async function spansDropped({ metricsUrls }: RunSystem): Promise<number> {
  const texts = await Promise.all(metricsUrls.map(async (url) => (await fetch(url)).text()));
  const counts = texts.join('\n').matchAll(/^codedock_telemetry_spans_dropped_total\{[^}]*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

function figuresOf(collector: string, compared: readonly Compared[]): Figures {
  const own = compared.map((each) => each.own);
  const times = timesOf(own);
  return {
    collector,
    runs: times.length,
    p50_ms: rounded(median(times)),
    p99_ms: rounded(percentile(times, 0.99)),
    p50_ratio: ratio(compared, (phases) => median(timesOf(phases))),
    p99_ratio: ratio(compared, (phases) => percentile(timesOf(phases), 0.99)),
    cpu_ms_per_run: rounded(cpuPerRun(own)),
    cpu_ratio: ratio(compared, cpuPerRun),
    rss_mib: rounded(median(own.map(({ residentMib: mib }) => mib))),
    spans_dropped: own.reduce((sum, { dropped }) => sum + dropped, 0),
  };
}

function timesOf(phases: readonly Phase[]): number[] {
  return phases.flatMap(({ times }) => times);
}

function cpuPerRun(phases: readonly Phase[]): number {
  return phases.reduce((sum, { cpu }) => sum + cpu, 0) / timesOf(phases).length;
}

/**
 * What a figure of some phases is to that of the phases beside them, and its interval: phases are drawn anew, each with
 * those beside it, so that what the machine did meanwhile falls on both.
 */
function ratio(compared: readonly Compared[], of: (phases: readonly Phase[]) => number): Ratio {
  const ratioOf = (some: readonly Compared[]) =>
    of(some.map(({ own }) => own)) / of(some.flatMap((each) => each.beside));
  const drawn = Array.from({ length: RESAMPLES }, () =>
    ratioOf(compared.map(() => compared[Math.floor(Math.random() * compared.length)] as Compared)),
  );
  const toPrint = (value: number) => Math.round(value * 1_000) / 1_000;
  return [toPrint(ratioOf(compared)), toPrint(percentile(drawn, 0.025)), toPrint(percentile(drawn, 0.975))];
}

function print(figures: readonly Figures[]): void {
  const shown = ([value, from, to]: Ratio) => `${value.toFixed(3)} (${from.toFixed(3)}–${to.toFixed(3)})`;
  printTable(
    ['collector', 'runs', 'p50 ms', 'p99 ms', 'p50 ×', 'p99 ×', 'CPU ms/run', 'CPU ×', 'RSS MiB', 'dropped'],
    figures.map((one) => Object.values(one).map((value) => (Array.isArray(value) ? shown(value as never) : value))),
  );
  console.log(
    `× = to the phases beside it in which the collector works, and the interval of 95 %. ${LANES} runs open at a time.`,
  );
  if (asJson) console.log(JSON.stringify(figures));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
