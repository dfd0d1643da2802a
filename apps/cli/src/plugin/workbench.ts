import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';

/** How a recorded question is answered now. */
export interface ReplayedQuestion {
  readonly file: string;
  /** Counted from 1. */
  readonly question: number;
  readonly type: string;
  readonly recorded?: string;
  readonly now: string;
  readonly differences: readonly string[];
}

/** What the plugin-host's code found out about a plugin. */
export interface HostedTest {
  readonly name: string;
  readonly version: string;
  readonly transport: string;
  readonly subscriptions: readonly string[];
  readonly tools: readonly string[];
  readonly replayed: readonly ReplayedQuestion[];
}

/** What a port costs, in milliseconds. */
export interface PortFigures {
  readonly port: string;
  readonly calls: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly floor_p50_ms: number;
  readonly floor_p99_ms: number;
  readonly ratio: number;
}

/** What all ports of a plugin cost, beside what the floor is. */
export interface HostedBench {
  readonly name: string;
  readonly transport: string;
  readonly floor: string;
  readonly ports: readonly PortFigures[];
}

/** Starts the plugin of a folder by the code of the plugin-host and asks it what was recorded. @throws with the host's reason. */
export function hostedTest(folder: string, recordings: readonly string[]): Promise<HostedTest> {
  return workbench<HostedTest>(['test', folder, ...recordingOptions(recordings)]);
}

/** Measures the ports of a folder's plugin. @throws with the host's reason. */
export function hostedBench(folder: string, recordings: readonly string[], calls: number): Promise<HostedBench> {
  return workbench<HostedBench>(['bench', folder, '--calls', String(calls), ...recordingOptions(recordings)]);
}

function recordingOptions(files: readonly string[]): string[] {
  return files.flatMap((file) => ['--recording', file]);
}

/** A program of the plugin-host's package, since apps never import apps. What the plugin logs goes to stderr as it comes. */
function workbench<T>(args: readonly string[]): Promise<T> {
  return new Promise((resolve, reject) => {
    const program = join(dirname(pluginHostPackage()), 'dist', 'workbench', 'main.js');
    const child = spawn(process.execPath, ['--enable-source-maps', program, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    let told = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      told += text;
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code !== 0) return reject(new Error(told.trim() || `${program} ended with exit code ${code}`));
      process.stderr.write(told);
      resolve(JSON.parse(printed) as T);
    });
  });
}

function pluginHostPackage(): string {
  try {
    return require.resolve('@codedock/plugin-host/package.json');
  } catch (cause) {
    throw new Error('The plugin-host is not installed beside this command; run it from a clone after npm run build.', {
      cause,
    });
  }
}
