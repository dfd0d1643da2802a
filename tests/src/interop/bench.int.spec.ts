import path from 'node:path';
import { repositoryRoot, startProcess } from '@codedock/testkit';
import { describePeer, go } from './peers.js';

/** What the host's chain, checks and timers may cost on top of the call itself, as a factor of its median. */
const MOST = 1.2;
const BENCH_MS = 120_000;

describePeer('a gate that asks a plugin in Go', go, () => {
  it(
    'costs at most 1.2 times a bare grpc-js call of the same process',
    async () => {
      // A process of its own, on compiled code: what the test runner adds to every module would be measured too.
      const bench = await startProcess({
        command: process.execPath,
        args: [path.join(repositoryRoot(), 'tests/interop/bench.mjs')],
      });
      const { code } = await bench.exited;
      if (code !== 0) throw new Error(`the benchmark failed:\n${bench.output()}`);
      const figures = JSON.parse(bench.stdout().trim().split('\n').at(-1) ?? '') as { p50_ratio: number };
      console.log('OnEvent of a plugin in Go:', JSON.stringify(figures));
      expect(figures.p50_ratio).toBeLessThanOrEqual(MOST);
    },
    BENCH_MS,
  );
});
