import { wire } from '@codedock/proto';

const pieceBytes = 1024;
const backlogBytes = 64 * 1024;

/** Takes output while it is read. */
interface Reader {
  write(piece: wire.StdioData): unknown;
}

/** What the plugin's code prints, for the host: kept (the last 64 KiB) until the host reads it. */
export class OutputStream {
  private reader: Reader | undefined;
  private backlog: wire.StdioData[] = [];
  private bytes = 0;

  /** Takes printed bytes. */
  push(channel: 'stdout' | 'stderr', data: Buffer): void {
    const number = channel === 'stdout' ? wire.StdioData_Channel.STDOUT : wire.StdioData_Channel.STDERR;
    for (let at = 0; at < data.length; at += pieceBytes) {
      const piece = { channel: number, data: data.subarray(at, at + pieceBytes) };
      if (this.reader !== undefined) this.reader.write(piece);
      else this.keep(piece);
    }
  }

  /** Gives everything kept, and everything from now on, to a reader. */
  attach(reader: Reader): void {
    this.reader = reader;
    for (const piece of this.backlog) reader.write(piece);
    this.backlog = [];
    this.bytes = 0;
  }

  /** The reader has gone. */
  detach(reader: Reader): void {
    if (this.reader === reader) this.reader = undefined;
  }

  private keep(piece: wire.StdioData): void {
    this.backlog.push(piece);
    this.bytes += piece.data.length;
    while (this.bytes > backlogBytes) this.bytes -= this.backlog.shift()?.data.length ?? this.bytes;
  }
}
