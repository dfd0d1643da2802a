// How long a plugin-host takes from its start to ready, with one plugin and with ten. Plugins start side by side, so ten
// are to take at most three times as long as one: more ends it with exit code 1, unless it is started with --no-limits.
// The last line is one JSON value.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { temporaryFolder, writePlugin } from '@codedock/testkit';
import { median } from '../bench/statistics.js';
import { judgesFigures, missed } from './limits.js';
import { startMatrixHost } from './plugin-host.js';

const rounds = process.argv.includes('--quick') ? 1 : 5;
const many = 10;
const LIMITS = { ratio: { max: 3 } };

const policy = (name: string) => `import { serve } from '@codedock/plugin-sdk';
serve({ name: '${name}', version: '1.0.0', onAgentInput: () => undefined });`;

async function main(): Promise<void> {
  const folder = await temporaryFolder('codedock-start-');
  try {
    const one = await rootWith(path.join(folder.path, 'one'), 1);
    const ten = await rootWith(path.join(folder.path, 'ten'), many);
    const times = { one: [] as number[], ten: [] as number[] };
    // In turns, so that what else the machine does meets both.
    for (let round = 0; round < rounds; round += 1) {
      times.one.push(await startMs(one));
      times.ten.push(await startMs(ten));
      console.log(`1 plugin ${times.one.at(-1)} ms · ${many} plugins ${times.ten.at(-1)} ms`);
    }
    const [oneMs, tenMs] = [median(times.one), median(times.ten)];
    const figures = { rounds, one_ms: oneMs, ten_ms: tenMs, ratio: Math.round((tenMs / oneMs) * 100) / 100 };
    const misses = judgesFigures(process.argv) ? missed(figures, LIMITS) : [];
    for (const miss of misses) console.error(miss);
    console.log(JSON.stringify(figures));
    process.exitCode = misses.length === 0 ? 0 : 1;
  } finally {
    await folder.remove();
  }
}

async function rootWith(root: string, plugins: number): Promise<string> {
  await mkdir(root, { mode: 0o755 });
  for (let at = 1; at <= plugins; at += 1) await writePlugin(root, `policy-${at}`, { source: policy(`policy-${at}`) });
  return root;
}

/** Milliseconds from the start of the process until every plugin answers. */
async function startMs(root: string): Promise<number> {
  const began = performance.now();
  const host = await startMatrixHost(root);
  const ms = Math.round(performance.now() - began);
  await host.close();
  return ms;
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
