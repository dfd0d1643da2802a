import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.js';

const runningProcesses = new Map<number, string>();
const temporaryFolders = new Set<string>();
const SOCKETS = new Set(['TCPSocketWrap', 'TCPServerWrap', 'TCPWRAP', 'TCPSERVERWRAP']);
const socketsAtLoad = countSockets();

/** A folder that the test fills. */
export interface TemporaryFolder {
  readonly path: string;
  /** Deletes it with everything in it. */
  remove(): Promise<void>;
}

/** Makes an empty temporary folder (mode 0700); `expectNoLeftovers` fails while it exists. */
export async function temporaryFolder(prefix = 'codedock-test-'): Promise<TemporaryFolder> {
  const folder = await mkdtemp(path.join(os.tmpdir(), prefix));
  temporaryFolders.add(folder);
  return {
    path: folder,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Notes a started process until `recordExit`. */
export function recordStart(pid: number, name: string): void {
  runningProcesses.set(pid, name);
}

/** Notes that a recorded process has ended. */
export function recordExit(pid: number): void {
  runningProcesses.delete(pid);
}

/**
 * Fails when something that this test file started is still there after `timeoutMs` (default 5,000): processes of
 * `startProcess`, folders of `temporaryFolder`, TCP sockets of this process. For `afterAll`.
 */
export async function expectNoLeftovers(options: { readonly timeoutMs?: number } = {}): Promise<void> {
  await eventually(
    () => {
      const left = [
        ...[...runningProcesses].map(([pid, name]) => `process ${pid} (${name})`),
        ...[...temporaryFolders].filter((folder) => existsSync(folder)).map((folder) => `folder ${folder}`),
        ...(countSockets() > socketsAtLoad ? [`${countSockets() - socketsAtLoad} TCP sockets`] : []),
      ];
      if (left.length > 0) {
        throw new Error(`left behind: ${left.join(', ')}`);
      }
    },
    { timeoutMs: options.timeoutMs ?? 5_000, what: 'everything to be closed' },
  );
}

function countSockets(): number {
  return process.getActiveResourcesInfo().filter((resource) => SOCKETS.has(resource)).length;
}
