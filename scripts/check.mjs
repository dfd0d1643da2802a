/**
 * Everything that can be judged without running the product, in order of speed. All steps run, so that one look
 * shows all that is wrong. `node scripts/check.mjs lint boundaries` runs only the steps named.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const STEPS = ['lint', 'boundaries', 'purity', 'proto:lint', 'proto:breaking', 'typecheck', 'deadcode', 'gen:check'];

const wanted = process.argv.slice(2);
const unknown = wanted.filter((step) => !STEPS.includes(step));
if (unknown.length > 0) {
  console.error(`No such step: ${unknown.join(', ')}. Steps: ${STEPS.join(', ')}.`);
  process.exit(2);
}

const failed = [];
for (const step of STEPS.filter((name) => wanted.length === 0 || wanted.includes(name))) {
  const begun = performance.now();
  const { status } = spawnSync('npm', ['run', '--silent', step], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  console.log(`${status === 0 ? 'ok  ' : 'FAIL'} ${step} (${seconds} s)`);
  if (status !== 0) failed.push(step);
}

console.log(failed.length === 0 ? 'check: all steps passed' : `check: failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
