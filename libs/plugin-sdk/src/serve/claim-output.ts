import { Writable } from 'node:stream';
import { format } from 'node:util';
import { readHostEnvironment } from '../config/host-environment.js';
import { type LogLevel, log } from './log.js';
import { OutputStream } from './output-stream.js';

/** What the plugin's code prints to stdout. */
export const printed = new OutputStream();

const consoleLevels: Readonly<Record<string, LogLevel>> = {
  trace: 'trace',
  debug: 'debug',
  log: 'info',
  info: 'info',
  warn: 'warn',
  error: 'error',
};

function claimOutput(): void {
  const stdout = new Writable({
    write(chunk: Buffer, _, done) {
      printed.push('stdout', chunk);
      done();
    },
  });
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, value: stdout });
  const methods = Object.entries(consoleLevels).map(([method, level]) => [
    method,
    (...args: unknown[]) => log[level](format(...args)),
  ]);
  Object.assign(globalThis.console, Object.fromEntries(methods));
}

// The first line on stdout must be the handshake, so stdout is taken while the SDK is loaded: before the plugin's own
// code runs, and only in a process that a host started as a plugin.
if (readHostEnvironment().startedByHost) claimOutput();
