import { writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** Milliseconds between two tries while the reader does not take what is written. */
const RETRY_MS = 20;
/** Bytes that wait for a slow reader; lines beyond them are dropped and counted. */
const MOST_WAITING = 8 * 1024 * 1024;
/** Milliseconds that an ending process spends on a slow reader. */
const LAST_TRY_MS = 500;

/** Writes some bytes at once and says how many; throws EAGAIN while the reader is slow. */
export type WriteNow = (fd: number, bytes: Buffer) => number;

/**
 * Log lines on a file descriptor whose reader may be slow or gone: lines wait, then are dropped; neither keeps the
 * process from working or from ending.
 */
export class LineOutput implements DestinationStream {
  readonly #fd: number;
  readonly #writeNow: WriteNow;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  #gone = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(fd: number, writeNow: WriteNow = writeSync) {
    this.#fd = fd;
    this.#writeNow = writeNow;
  }

  write(line: string): void {
    if (this.#gone) return;
    const bytes = Buffer.from(line);
    if (this.#waitingBytes > 0 && this.#waitingBytes + bytes.length > MOST_WAITING) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waiting.length === 1) this.#write();
  }

  /** Tries for a short time to write what waits; for the end of the process. */
  flushSync(): void {
    const deadline = performance.now() + LAST_TRY_MS;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    while (!this.#write() && performance.now() < deadline) Atomics.wait(pause, 0, 0, RETRY_MS);
  }

  /** True when nothing waits any more. */
  #write(): boolean {
    clearTimeout(this.#timer);
    try {
      while (this.#waiting.length > 0) this.#writeFirst();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
        this.#timer = setTimeout(() => this.#write(), RETRY_MS).unref();
        return false;
      }
      // Nobody can be told: this is where one would be.
      this.#gone = true;
      this.#waiting = [];
      this.#waitingBytes = 0;
    }
    return true;
  }

  #writeFirst(): void {
    const first = this.#waiting[0] as Buffer;
    const written = this.#writeNow(this.#fd, first);
    this.#waitingBytes -= written;
    if (written < first.length) this.#waiting[0] = first.subarray(written);
    else this.#waiting.shift();
    if (this.#waiting.length === 0 && this.#dropped > 0) this.#tellDropped();
  }

  #tellDropped(): void {
    const line = {
      level: 'warn',
      time: new Date().toISOString(),
      dropped: this.#dropped,
      msg: 'log lines were dropped',
    };
    this.#dropped = 0;
    this.write(`${JSON.stringify(line)}\n`);
  }
}

let standard: LineOutput | undefined;

/** Standard output, one for the whole process; what waits is written when the process ends. */
export function standardOutput(): LineOutput {
  if (standard === undefined) {
    const output = new LineOutput(1);
    process.on('exit', () => output.flushSync());
    standard = output;
  }
  return standard;
}
