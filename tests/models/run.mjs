#!/usr/bin/env node
// Checks the models of this folder with spin: each holds, and each mutant that lacks one safety check is refuted.
// A mutant is named in its model's head ("-DNAME  what it lacks"). The last line is "N passed, N failed".
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { executableOnPath } from '../../scripts/workspace/on-path.mjs';

const run = promisify(execFile);
const folder = path.dirname(fileURLToPath(import.meta.url));

const missing = ['spin', 'gcc'].filter((program) => !executableOnPath(program));
if (missing.length > 0) {
  const why = `no ${missing.join(' and no ')} on PATH (Debian: apt install spin gcc)`;
  if (process.env.REQUIRE_MODELS === '1') {
    console.error(`the models could not be checked: ${why}`);
    console.log('0 passed, 1 failed');
    process.exit(1);
  }
  console.log(`skipped: the models, ${why}`);
  console.log('0 passed, 0 failed');
  process.exit(0);
}

// One property at a time: assertions and invalid end states by a search of all states, the ltl formula by one for
// cycles under weak fairness.
const searches = [
  { name: 'safety', compile: ['-DSAFETY', '-DNOCLAIM'], verify: ['-m100000'] },
  { name: 'liveness', compile: ['-DNFAIR=4'], verify: ['-a', '-f', '-m100000'] },
];

/** Whether every search of the model passes; `states` are those of the last. */
async function check(model, defines) {
  const work = mkdtempSync(path.join(tmpdir(), 'codedock-model-'));
  try {
    copyFileSync(path.join(folder, model), path.join(work, 'model.pml'));
    await run('spin', ['-a', ...defines, 'model.pml'], { cwd: work });
    let states = 0;
    for (const search of searches) {
      await run('gcc', ['-O1', '-w', ...search.compile, '-o', search.name, 'pan.c'], { cwd: work });
      const { stdout } = await run(path.join(work, search.name), search.verify, { cwd: work });
      states += Number(/([\d.e+]+) states, stored/.exec(stdout)?.[1] ?? 0);
      if (!/errors: 0/.test(stdout)) return { holds: false, search: search.name, stdout };
      if (/error: max search depth too small/.test(stdout)) return { holds: false, search: 'depth', stdout };
    }
    return { holds: true, states };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

let passed = 0;
let failed = 0;
function report(ok, line, detail) {
  if (ok) passed += 1;
  else failed += 1;
  console.log(`${ok ? '✓' : '✗'} ${line}`);
  if (!ok && detail) console.log(detail);
}

for (const model of readdirSync(folder).filter((file) => file.endsWith('.pml'))) {
  const whole = await check(model, []);
  report(whole.holds, `${model} holds${whole.holds ? ` (${whole.states} states)` : ''}`, whole.stdout);
  const head = readFileSync(path.join(folder, model), 'utf8').split('*/')[0];
  for (const [, define, lacking] of head.matchAll(/-D(\w+)\s+(.*)/g)) {
    const mutant = await check(model, [`-D${define}`]);
    report(!mutant.holds, `${model} without its check is refuted: ${lacking}`, 'the mutant was not refuted');
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
