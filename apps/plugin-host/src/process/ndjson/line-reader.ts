const newline = 0x0a;
const carriageReturn = 0x0d;
/** Bytes kept of a line that is too long, enough to see whose answer it is. */
const keptOfLongLine = 256;

/** Told what was read. */
export interface LineSink {
  /** One line without its end, never empty. */
  onLine(line: Buffer): void;
  /** A line over the cap; the rest of it is not kept. */
  onTooLong(beginning: Buffer): void;
}

/** Cuts a byte stream into lines of at most `maxBytes`, end not counted. Never holds more than that. */
export class LineReader {
  private parts: Buffer[] = [];
  private length = 0;
  private discarding = false;

  constructor(
    private readonly sink: LineSink,
    private readonly maxBytes: number,
  ) {}

  /** Takes the next bytes; they may be kept until their line is complete. */
  write(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      this.add(chunk.subarray(from, at));
      this.finish();
      from = at + 1;
    }
    if (from < chunk.length) this.add(chunk.subarray(from));
  }

  /** Hands over what is left without a line end. */
  end(): void {
    this.finish();
  }

  private add(part: Buffer): void {
    if (this.discarding || part.length === 0) return;
    this.parts.push(part);
    this.length += part.length;
    if (this.length <= this.maxBytes) return;
    this.sink.onTooLong(Buffer.concat(this.parts).subarray(0, keptOfLongLine));
    this.discarding = true;
    this.clear();
  }

  private finish(): void {
    const { parts } = this;
    if (!this.discarding && this.length > 0) {
      const whole = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      const line = whole.at(-1) === carriageReturn ? whole.subarray(0, -1) : whole;
      if (line.length > 0) this.sink.onLine(line);
    }
    this.discarding = false;
    this.clear();
  }

  private clear(): void {
    this.parts = [];
    this.length = 0;
  }
}
