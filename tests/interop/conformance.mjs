#!/usr/bin/env node
// Puts codedock-plugin-conformance, as authors get it, to the plugins of every language and to those that ship. The last
// line is "N passed, N failed". Plugins whose toolchain is absent are skipped, or, with REQUIRE_INTEROP=1, failures.
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { executableOnPath } from '../../scripts/workspace/on-path.mjs';
import { prepare } from '../../scripts/workspace/prepare.mjs';
import { root } from '../../scripts/workspace/root.mjs';
import { buildPeers } from './build.mjs';

/** Milliseconds for one question and for coming up: what is judged here is the answer, and machines are shared. */
const patience = ['--timeout', '30000', '--start-timeout', '60000'];
const patient = { timeoutMs: 30_000 };
const shipped = ['plugin/redact', 'plugin/example', 'examples/shell-policy', 'examples/policy-demo'];

await prepare();
console.log('codedock  building the peers in Go and Python (the first time takes minutes) …');
const absent = await buildPeers();
const { go, ndjson, oldGo, python, typescript } = createRequire(import.meta.url)(
  join(root, 'tests/dist/interop/peers.js'),
);
const subjects = [
  { title: 'TypeScript', peer: typescript },
  { title: 'TypeScript without TLS', peer: typescript, pluginJson: { autoMtls: false } },
  { title: 'Go', peer: go },
  { title: 'Go without TLS', peer: go, pluginJson: { autoMtls: false } },
  { title: 'Go on go-plugin 1.0.1 without TLS', peer: oldGo, pluginJson: { autoMtls: false } },
  { title: 'Python', peer: python },
  { title: 'Python without TLS', peer: python, pluginJson: { autoMtls: false } },
  { title: 'NDJSON', peer: ndjson },
];

const folder = mkdtempSync(join(tmpdir(), 'cdc-'));
// As it is packed, and away from the clone: it has to do without its dependencies.
const tool = join(folder, 'tool');
for (const part of ['package.json', 'bin', 'dist'])
  cpSync(join(root, 'apps/plugin-conformance', part), join(tool, part), { recursive: true });
const program = join(tool, 'bin/codedock-plugin-conformance.cjs');
let passed = 0;
let failed = 0;
try {
  for (const [at, { title, peer, pluginJson }] of subjects.entries()) {
    if (typeof peer === 'string') {
      console.log(`skipped: ${title}: ${peer}`);
      if (process.env.REQUIRE_INTEROP === '1') failed += 1;
      continue;
    }
    const plugins = join(folder, String(at));
    mkdirSync(plugins);
    await peer.install(plugins, peer.name, { ...patient, ...pluginJson });
    count(title, await reportOf(join(plugins, peer.name)));
  }
  for (const [language, program] of [
    ['python', 'python3'],
    ['shell', 'jq'],
  ]) {
    if (!executableOnPath(program)) {
      console.log(`skipped: the template in ${language}: there is no ${program} on PATH`);
      continue;
    }
    const copy = join(folder, 'templates', `${language}-policy`);
    cpSync(join(root, 'apps/cli/templates', language), copy, { recursive: true });
    const executable = join(copy, '__NAME__');
    if (existsSync(executable)) {
      chmodSync(executable, 0o755);
      renameSync(executable, join(copy, `${language}-policy`));
    }
    count(`the template in ${language}`, await reportOf(copy));
  }
  for (const path of shipped) {
    const copy = join(folder, 'shipped', path.split('/')[1]);
    cpSync(join(root, path), copy, { recursive: true });
    count(path, await reportOf(copy));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const reason of absent) console.log(`absent: ${reason}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

function count(title, report) {
  if (report === undefined) {
    failed += 1;
    return;
  }
  passed += report.passed;
  failed += report.failed;
  console.log(`${title}: ${report.passed} passed, ${report.failed} failed, ${report.skipped} skipped`);
  for (const { outcome, about, title: check, reason } of report.results)
    if (outcome === 'failed') console.log(`  FAIL ${about}: ${check}\n       ${reason}`);
}

/** What the tool says of a plugin; undefined, with its output shown, where it says nothing. */
async function reportOf(path) {
  const child = spawn(process.execPath, [program, '--json', ...patience, path], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'])
    child[name].on('data', (chunk) => {
      chunks[name] += chunk;
    });
  const code = await new Promise((resolve) => child.on('close', (exit, signal) => resolve(signal ?? exit)));
  try {
    return JSON.parse(chunks.stdout);
  } catch {
    console.log(`${path}: the tool ended with ${code} and printed no report\n${chunks.stderr}`);
    return undefined;
  }
}
