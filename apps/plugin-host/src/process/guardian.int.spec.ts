import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { createPluginRoot, type PluginRoot, repositoryRoot } from '../../test/plugin-folder.js';
import { until } from '../../test/test-host.js';
import { sweepOrphans } from './sweep-orphans.js';

let root: PluginRoot;

beforeEach(() => {
  root = createPluginRoot();
});

afterEach(() => root.remove());

const program = `
const { Guardian } = require(${JSON.stringify(join(repositoryRoot, 'apps/plugin-host/src/process/guardian.ts'))});
const { PluginProcess } = require(${JSON.stringify(join(repositoryRoot, 'apps/plugin-host/src/process/plugin-process.ts'))});
const pino = require('pino');
const log = pino({ level: 'silent' });
const guardian = new Guardian(log);
const spec = { command: [process.argv[1]], folder: '/', environment: { PATH: process.env.PATH }, limits: { logBytesPerSecond: 1024 } };
PluginProcess.start(spec, guardian, log).then(async (child) => {
  console.log(await child.handshakeLine());
  await child.gone;
  console.log('gone');
});
setInterval(() => {}, 1000);
`;

/** Prints its id and those of what it started: a child, one in a session of its own, one nobody waits for, one without environment. */
const leader = `#!/bin/sh
sleep 600 >/dev/null 2>&1 &
child=$!
setsid sleep 601 >/dev/null 2>&1 &
session=$!
orphan=$(sh -c 'setsid sleep 602 >/dev/null 2>&1 & echo $!')
env -i /usr/bin/setsid /bin/sleep 603 >/dev/null 2>&1 &
bare=$!
echo "$$ $child $session $orphan $bare"
wait
`;

interface Started {
  readonly host: ChildProcess;
  readonly lines: Interface;
  /** Leader, child, own session, double fork, without environment. */
  readonly pids: readonly number[];
}

async function started(): Promise<Started> {
  const folder = root.addScript('p', leader);
  const host = spawn(
    process.execPath,
    ['-r', join(repositoryRoot, 'scripts/register-typescript.cjs'), '-e', program, join(folder, 'p')],
    { cwd: repositoryRoot, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const lines = createInterface({ input: host.stdout });
  const [line] = (await once(lines, 'line')) as [string];
  const pids = line.split(' ').map(Number);
  await until(() => pids.every(isSleeping));
  return { host, lines, pids };
}

/** Whether it has become what it is to be, rather than the fork of a shell. */
function isSleeping(pid: number, at: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(at === 0 ? '/p' : 'sleep');
}

/** Whether a process runs; a zombie does not. */
function runs(pid: number): boolean {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return false;
  try {
    const text = readFileSync(path, 'utf8');
    return !text.slice(text.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    return false;
  }
}

describe('the end of the host', () => {
  it.each(['SIGKILL', 'SIGSEGV', 'SIGTERM', 'SIGHUP'] as const)(
    'by %s takes every plugin process with it, wherever it has moved to',
    async (signal) => {
      const { host, pids } = await started();
      const exited = once(host, 'exit');
      host.kill(signal);
      await exited;
      await until(() => !pids.some(runs));
    },
  );

  it('together with the plugin’s takes what is marked', async () => {
    const { host, pids } = await started();
    const [plugin = 0, child = 0, session = 0, orphan = 0, bare = 0] = pids;
    const exited = once(host, 'exit');
    process.kill(plugin, 'SIGKILL');
    host.kill('SIGKILL');
    await exited;
    await until(() => ![plugin, child, session, orphan].some(runs));
    if (runs(bare)) process.kill(bare, 'SIGKILL');
  });
});

describe('the end of the host and of its guardian', () => {
  /** Every child of a process that is a guardian. */
  const guardiansOf = (host: number) =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => {
        try {
          const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
          const parent = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1];
          return parent === String(host) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0guardian\0');
        } catch {
          return false;
        }
      });

  it.each([['alone'], ['with the plugin']])(
    '%s leaves what the start of the next host ends, and nothing else',
    async (what) => {
      const living = await started();
      const { host, pids } = await started();
      const [plugin = 0, child = 0, session = 0, orphan = 0, bare = 0] = pids;
      const guardians = guardiansOf(host.pid ?? 0);
      expect(guardians).toHaveLength(1);
      const exited = once(host, 'exit');
      for (const pid of guardians) process.kill(pid, 'SIGKILL');
      host.kill('SIGKILL');
      if (what === 'with the plugin') process.kill(plugin, 'SIGKILL');
      await exited;
      await sweepOrphans();
      await until(() => ![plugin, child, session, orphan].some(runs));
      if (what === 'alone') await until(() => !runs(bare));
      else if (runs(bare)) process.kill(bare, 'SIGKILL');
      expect(living.pids.filter((pid) => !runs(pid))).toEqual([]);
      living.host.kill('SIGKILL');
      await until(() => !living.pids.some(runs));
    },
  );

  it('is no reason to touch a process that claims a host of another namespace, or none', async () => {
    const marked = (mark: string) =>
      spawn('/bin/sleep', ['604'], { env: { CODEDOCK_PLUGIN_INSTANCE: mark }, stdio: 'ignore' });
    const others = [marked('1-1-1-abc.1'), marked('abc.1'), marked('')];
    await Promise.all(others.map((child) => once(child, 'spawn')));
    await sweepOrphans();
    expect(others.map(({ exitCode, signalCode }) => exitCode ?? signalCode)).toEqual([null, null, null]);
    for (const child of others) child.kill('SIGKILL');
    await Promise.all(others.map((child) => once(child, 'exit')));
  });
});

describe('the end of a plugin', () => {
  it('takes everything it has started with it', async () => {
    const { host, lines, pids } = await started();
    const [plugin = 0, child = 0, session = 0, orphan = 0, bare = 0] = pids;
    const gone = once(lines, 'line');
    process.kill(plugin, 'SIGKILL');
    expect(await gone).toEqual(['gone']);
    expect([plugin, child, session, orphan].filter(runs)).toEqual([]);
    if (runs(bare)) process.kill(bare, 'SIGKILL');
    host.kill('SIGKILL');
    await once(host, 'exit');
  });
});
