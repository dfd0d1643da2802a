import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createPluginRoot, type PluginRoot, repositoryRoot } from '../../test/plugin-folder.js';
import { until } from '../../test/test-host.js';

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
PluginProcess.start({ command: [process.argv[1]], folder: ${JSON.stringify('/')}, environment: { PATH: process.env.PATH } }, guardian, log)
  .then(async (child) => console.log(await child.handshakeLine()));
setInterval(() => {}, 1000);
`;

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
    'by %s takes every plugin process with it',
    async (signal) => {
      const folder = root.addScript('p', '#!/bin/sh\nsleep 600 &\necho "$$ $!"\nwait\n');
      const host = spawn(
        process.execPath,
        ['-r', join(repositoryRoot, 'scripts/register-typescript.cjs'), '-e', program, join(folder, 'p')],
        {
          cwd: repositoryRoot,
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      const [line] = (await once(createInterface({ input: host.stdout }), 'line')) as [string];
      const [leader = 0, grandchild = 0] = line.split(' ').map(Number);
      expect([runs(leader), runs(grandchild)]).toEqual([true, true]);
      const exited = once(host, 'exit');
      host.kill(signal);
      await exited;
      await until(() => !runs(leader) && !runs(grandchild));
    },
  );
});
