import type { Writable } from 'node:stream';

/** Bytes given to the pipe at a time; what waits beyond can still be taken back. */
const handedBytes = 256 * 1024;

/** A line that was accepted. */
export interface WrittenLine {
  /** Takes it back; false when it is on its way already. */
  takeBack(): boolean;
}

interface Waiting {
  readonly line: Buffer;
}

/**
 * Lines on their way into a pipe that the other side may never read. What does not fit the cap is refused, never kept.
 */
export class FrameWriter {
  private readonly waiting = new Set<Waiting>();
  private waitingBytes = 0;
  private closed = false;

  constructor(
    private readonly pipe: Writable,
    /** Bytes that may wait before the pipe. */
    private readonly capBytes: number,
  ) {
    pipe.on('drain', () => this.hand());
  }

  /** Bytes the other side has not taken yet. */
  get unreadBytes(): number {
    return this.waitingBytes + this.pipe.writableLength;
  }

  /** Whether lines can arrive at all. */
  get open(): boolean {
    return !this.closed && !this.pipe.destroyed && !this.pipe.writableEnded;
  }

  /** Accepts a line; undefined when the cap is reached or the pipe is closed. */
  write(line: Buffer): WrittenLine | undefined {
    if (!this.open || this.waitingBytes + line.length > this.capBytes) return undefined;
    const entry = { line };
    this.waiting.add(entry);
    this.waitingBytes += line.length;
    this.hand();
    return { takeBack: () => this.remove(entry) };
  }

  /** Accepts no more, drops what waits and ends the pipe. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.waiting.clear();
    this.waitingBytes = 0;
    this.pipe.end();
  }

  private hand(): void {
    for (const entry of this.waiting) {
      if (this.pipe.writableLength >= handedBytes || this.pipe.destroyed) return;
      this.remove(entry);
      this.pipe.write(entry.line);
    }
  }

  private remove(entry: Waiting): boolean {
    if (!this.waiting.delete(entry)) return false;
    this.waitingBytes -= entry.line.length;
    return true;
  }
}
