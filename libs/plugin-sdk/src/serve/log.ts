import { writeSync } from 'node:fs';

/** How important a log line is. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/** Writes one line to the host's log, with fields that can be searched for. */
export type LogFunction = (message: string, fields?: Readonly<Record<string, unknown>>) => void;

/** The host's log, by level. Lines go to stderr in the form go-plugin hosts understand. */
export const log: Readonly<Record<LogLevel, LogFunction>> = {
  trace: (message, fields) => writeLine('trace', message, fields),
  debug: (message, fields) => writeLine('debug', message, fields),
  info: (message, fields) => writeLine('info', message, fields),
  warn: (message, fields) => writeLine('warn', message, fields),
  error: (message, fields) => writeLine('error', message, fields),
};

/** A log line. Go hosts take the time only with exactly six digits of a second. */
export function logLine(
  level: LogLevel,
  message: string,
  fields: Readonly<Record<string, unknown>> = {},
  now = new Date(),
): string {
  const own = {
    '@level': level,
    '@message': message,
    '@timestamp': now.toISOString().replace(/(\.\d{3})Z$/, '$1000Z'),
  };
  try {
    return JSON.stringify({ ...fields, ...own });
  } catch {
    return JSON.stringify({ ...own, fields: 'not representable as JSON' });
  }
}

// Synchronous, so that the last line before an exit is not lost; a host that does not read loses lines, never the plugin.
function writeLine(level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>): void {
  try {
    writeSync(2, `${logLine(level, message, fields)}\n`);
  } catch {
    // Nobody reads stderr, or its pipe is full.
  }
}
