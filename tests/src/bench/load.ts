/** What a series of calls took. */
export interface Load {
  /** Milliseconds per call, one after the other. */
  readonly latencies: readonly number[];
  /** Calls per second, 32 at a time. */
  readonly perSecond: number;
}

const WIDTH = 32;

/** Latencies of `calls` calls in sequence. */
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
