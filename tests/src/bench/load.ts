import { cpuMicroseconds } from './cpu-time.js';
import { median, percentile } from './statistics.js';

/** Something to be called, and the processes that work on a call. */
export interface Subject {
  readonly name: string;
  call(): Promise<unknown>;
  /** Processes that share the work beside this one. */
  readonly pids: readonly number[];
}

/** What calls of a subject took. */
export interface Measured {
  /** Milliseconds, one call after the other. */
  readonly p50: number;
  readonly p99: number;
  /** With 32 calls in flight. */
  readonly perSecond: number;
  /** Microseconds of CPU per call with 32 in flight: this process first, then the subject's; empty where unknown. */
  readonly cpu: readonly number[];
}

/** How much is measured: each round is `calls` one by one, then `wideCalls` with 32 in flight. */
export interface Amount {
  readonly rounds: number;
  readonly calls: number;
  readonly wideCalls: number;
}

const WIDTH = 32;

/**
 * Measures the subjects in turns, many short rounds each, so that whatever else the machine does falls on all of them
 * alike. The first round warms up and does not count.
 */
export async function measure(subjects: readonly Subject[], amount: Amount): Promise<Measured[]> {
  const samples = subjects.map(() => ({ latencies: [] as number[], perSecond: [] as number[], cpu: [] as number[][] }));
  for (let round = 0; round <= amount.rounds; round += 1) {
    for (const [index, subject] of subjects.entries()) {
      const latencies = await sequence(subject.call, amount.calls);
      const pids = [process.pid, ...subject.pids];
      const cpuBefore = cpuMicroseconds(pids);
      const perSecond = await throughput(subject.call, amount.wideCalls);
      const cpuAfter = cpuMicroseconds(pids);
      const of = samples[index];
      if (round === 0 || of === undefined) continue;
      of.latencies.push(...latencies);
      of.perSecond.push(perSecond);
      if (cpuBefore !== undefined && cpuAfter !== undefined) {
        of.cpu.push(cpuAfter.map((after, at) => (after - (cpuBefore[at] ?? after)) / amount.wideCalls));
      }
    }
  }
  return samples.map(({ latencies, perSecond, cpu }) => ({
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    perSecond: median(perSecond),
    cpu: (cpu[0] ?? []).map((_, at) => cpu.reduce((sum, round) => sum + (round[at] ?? 0), 0) / cpu.length),
  }));
}

/** Latencies of `calls` calls in sequence, in milliseconds. */
export async function sequence(call: () => Promise<unknown>, calls: number): Promise<number[]> {
  const latencies: number[] = [];
  for (let i = 0; i < calls; i += 1) {
    const begin = performance.now();
    await call();
    latencies.push(performance.now() - begin);
  }
  return latencies;
}

/** Calls per second with 32 in flight. */
export async function throughput(call: () => Promise<unknown>, calls: number): Promise<number> {
  let left = calls;
  const begin = performance.now();
  await Promise.all(
    Array.from({ length: WIDTH }, async () => {
      while (left > 0) {
        left -= 1;
        await call();
      }
    }),
  );
  return (calls / (performance.now() - begin)) * 1_000;
}
