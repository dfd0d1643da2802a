import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.js';

const runningProcesses = new Map<number, string>();
const temporaryFolders = new Set<string>();
const SOCKET_HANDLES = new Set(['TCP', 'TLSWrap']);
// Not counted: those of an earlier test file in the same process, which may end at any time.
const socketsAtLoad = new WeakSet(openSockets());

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
        ...leftSockets(),
      ];
      if (left.length > 0) {
        throw new Error(`left behind: ${left.join(', ')}`);
      }
    },
    { timeoutMs: options.timeoutMs ?? 5_000, what: 'everything to be closed' },
  );
}

function leftSockets(): string[] {
  const left = openSockets().filter((socket) => !socketsAtLoad.has(socket));
  return left.length > 0 ? [`${left.length} TCP sockets`] : [];
}

/** TCP sockets and servers of this process. Node has no public API that tells one from another; this one is as old as it. */
function openSockets(): object[] {
  const { _getActiveHandles } = process as unknown as { _getActiveHandles(): object[] };
  return _getActiveHandles().filter((handle) => {
    const { _handle } = handle as { readonly _handle?: object | null };
    return SOCKET_HANDLES.has(_handle?.constructor.name ?? '');
  });
}
