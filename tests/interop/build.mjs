// Builds the peers of the interop suites into .codedock/interop and writes there what the suites find (peers.json).
// A toolchain that is absent leaves its reason; with REQUIRE_INTEROP=1 that is an error.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { executableOnPath } from '../../scripts/workspace/on-path.mjs';
import { root } from '../../scripts/workspace/root.mjs';

const output = join(root, '.codedock', 'interop');
const goSources = join(root, 'tests/interop/go');
const pythonSources = join(root, 'tests/interop/python');
const protos = join(root, 'libs/proto/proto');

const oldestGo = [1, 26];
const oldestPython = [3, 10];
const commandMs = 900_000;

/** Builds what can be built. Answers the reasons for what cannot. */
export async function buildPeers() {
  mkdirSync(output, { recursive: true });
  const peers = { go: await goPeers(), python: await pythonPeer() };
  writeFileSync(join(output, 'peers.json'), JSON.stringify(peers, null, 2));
  return Object.values(peers).flatMap(({ absent }) => (absent === undefined ? [] : [absent]));
}

async function goPeers() {
  if (!executableOnPath('go')) return { absent: 'the Go peers: there is no go on PATH' };
  const [, ...version] = /go(\d+)\.(\d+)/.exec(await run('go', ['env', 'GOVERSION'])) ?? [];
  if (isOlder(version, oldestGo)) {
    return { absent: `the Go peers: Go ${version.join('.')} is older than ${oldestGo.join('.')}` };
  }
  const bin = join(output, 'bin');
  const build = (target, ...flags) =>
    run('go', ['build', ...flags, '-o', join(bin, target), target === 'host' ? './host' : './plugin'], {
      cwd: goSources,
      env: { CGO_ENABLED: '0' },
    });
  await run(join(root, 'node_modules/.bin/buf'), ['generate'], { cwd: goSources });
  await build('plugin');
  await build('host');
  await build('plugin-old', '-modfile=old.mod');
  return { plugin: join(bin, 'plugin'), oldPlugin: join(bin, 'plugin-old'), host: join(bin, 'host') };
}

async function pythonPeer() {
  if (!executableOnPath('python3')) return { absent: 'the Python peer: there is no python3 on PATH' };
  const asked = await run('python3', ['-c', 'import sys; print(*sys.version_info[:3]); import ensurepip']).catch(
    String,
  );
  const version = /^(\d+) (\d+) (\d+)\s*$/.exec(asked)?.slice(1);
  if (version === undefined) return { absent: `the Python peer: python3 cannot make environments (${asked.trim()})` };
  if (isOlder(version, oldestPython)) {
    return { absent: `the Python peer: Python ${version.join('.')} is older than ${oldestPython.join('.')}` };
  }
  const requirements = join(pythonSources, 'requirements.txt');
  const digest = createHash('sha256').update(readFileSync(requirements)).update(version.join('.')).digest('hex');
  const environment = join(output, `python-${digest.slice(0, 16)}`);
  const interpreter = join(environment, 'bin', 'python');
  if (!existsSync(join(environment, 'complete'))) {
    rmSync(environment, { recursive: true, force: true });
    await run('python3', ['-m', 'venv', environment]);
    const flags = ['--quiet', '--disable-pip-version-check', '--only-binary', ':all:', '--requirement', requirements];
    await run(interpreter, ['-m', 'pip', 'install', ...flags]);
    writeFileSync(join(environment, 'complete'), '');
  }
  const generated = join(output, 'python-gen');
  const fresh = `${generated}.new`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh);
  const files = ['plugin/wire.proto', 'codedock/plugin/v1/plugin.proto'].map((file) => join(protos, file));
  const out = [`--python_out=${fresh}`, `--grpc_python_out=${fresh}`];
  await run(interpreter, ['-m', 'grpc_tools.protoc', `-I${protos}`, ...out, ...files]);
  rmSync(generated, { recursive: true, force: true });
  renameSync(fresh, generated);
  return { interpreter, paths: [pythonSources, generated] };
}

function isOlder(version, oldest) {
  const [major, minor] = version.map(Number);
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1]);
}

/** Runs a command and answers what it printed. Fails with all its output. */
function run(command, args, { cwd = root, env = {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: commandMs,
    });
    let printed = '';
    let all = '';
    child.stdout.on('data', (chunk) => {
      printed += chunk;
      all += chunk;
    });
    child.stderr.on('data', (chunk) => {
      all += chunk;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(printed);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${signal ?? `exit code ${code}`}:\n${all}`));
    });
  });
}
