import { type Logger, redactText, redactValue } from '@codedock/platform';
import { LineSplitter } from './line-splitter.js';

const maxLineLength = 16 * 1024;
const tailLines = 10;
const tailLineLength = 400;
/** Characters of the tail in all, so that what matters most survives where messages are cut. */
const tailLength = 700;
const windowMs = 1_000;

type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
const levels: Readonly<Record<string, Level>> = {
  trace: 'trace',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  error: 'error',
};

/** One line of a plugin's stderr as a log record. */
export interface LogRecord {
  readonly level: Level;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Understands hclog's JSON and level prefixes; everything else is debug, Go panics are errors. */
export function readLogLine(line: string, afterPanic: boolean): LogRecord {
  if (line.startsWith('{')) {
    const record = readHclog(line);
    if (record !== undefined) return record;
  }
  const tagged = /^(?:\S+ )?\[(TRACE|DEBUG|INFO|WARN|ERROR)\]\s*(.*)$/.exec(line);
  if (tagged)
    return { level: levels[(tagged[1] ?? '').toLowerCase()] ?? 'debug', message: tagged[2] ?? '', fields: {} };
  return { level: afterPanic || isPanic(line) ? 'error' : 'debug', message: line, fields: {} };
}

/** Whether a line begins a Go panic; every untagged line after it belongs to it. */
export function isPanic(line: string): boolean {
  return line.startsWith('panic: ') || line.startsWith('fatal error: ');
}

function readHclog(line: string): LogRecord | undefined {
  let content: unknown;
  try {
    content = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof content !== 'object' || content === null) return undefined;
  const {
    '@message': message,
    '@level': level,
    '@timestamp': _,
    '@module': module,
    '@caller': __,
    ...fields
  } = content as Record<string, unknown>;
  if (typeof message !== 'string') return undefined;
  return {
    level: (typeof level === 'string' ? levels[level] : undefined) ?? 'debug',
    message,
    fields: { ...fields, ...(typeof module === 'string' ? { module } : {}) },
  };
}

/** A record for a message to people: JSON within quotation marks is hard to read. */
function describe({ message, fields }: LogRecord): string {
  return [
    message,
    ...Object.entries(redactValue(fields) as LogRecord['fields']).map(([name, value]) => `${name}=${textOf(value)}`),
  ].join(' ');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Takes a plugin's output: writes it to the service's log at a limited rate and keeps the last lines for messages. */
export class PluginLog {
  // One for each stream: a line that is not finished yet on one must not swallow the lines of the other.
  private readonly logged = new LineSplitter((line) => this.onLine(line), maxLineLength);
  private readonly printed = new LineSplitter((line) => this.onLine(line), maxLineLength);
  private readonly lastLines: string[] = [];
  private panicked = false;
  private windowStart = 0;
  private windowBytes = 0;
  private suppressed = 0;

  constructor(
    private readonly log: Logger,
    private readonly bytesPerSecond: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Takes bytes of stderr. */
  write(chunk: Uint8Array): void {
    this.logged.write(chunk);
  }

  /** Takes bytes that the plugin's code printed and that came through its connection. */
  writePrinted(chunk: Uint8Array): void {
    this.printed.write(chunk);
  }

  /** Writes what is left when the stream has ended. */
  end(): void {
    this.printed.flush();
    this.logged.flush();
    this.reportSuppressed();
  }

  /** The last lines, shortened and without secrets, oldest first; after a Go panic the lines from the panic on. */
  tail(): readonly string[] {
    const kept: string[] = [];
    let left = tailLength;
    for (const line of this.panicked ? this.lastLines : this.lastLines.toReversed()) {
      left -= line.length;
      if (left < 0) break;
      kept.push(line);
    }
    return this.panicked ? kept : kept.reverse();
  }

  private onLine(line: string): void {
    const record = readLogLine(line, this.panicked);
    this.remember(line, record);
    if (this.admits(line.length)) this.log[record.level]({ plugin_fields: record.fields }, record.message);
  }

  private remember(line: string, record: LogRecord): void {
    // The cause stands first in a panic, and hundreds of lines of stack traces may follow.
    if (!this.panicked && isPanic(line)) {
      this.panicked = true;
      this.lastLines.length = 0;
    }
    if (this.panicked && this.lastLines.length >= tailLines) return;
    // These lines leave the log: they go into audit rows, answers of the API and what a model is told.
    const shown = redactText(line.startsWith('{') ? describe(record) : line);
    this.lastLines.push(shown.length > tailLineLength ? `${shown.slice(0, tailLineLength)}…` : shown);
    if (this.lastLines.length > tailLines) this.lastLines.shift();
  }

  private admits(bytes: number): boolean {
    const now = this.now();
    if (now - this.windowStart >= windowMs) {
      this.reportSuppressed();
      this.windowStart = now;
      this.windowBytes = 0;
    }
    this.windowBytes += bytes;
    if (this.windowBytes <= this.bytesPerSecond) return true;
    this.suppressed++;
    return false;
  }

  private reportSuppressed(): void {
    if (this.suppressed > 0)
      this.log.warn({ suppressed: this.suppressed }, 'lines of a plugin were not logged: it writes too much');
    this.suppressed = 0;
  }
}
