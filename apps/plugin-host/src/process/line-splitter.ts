import { StringDecoder } from 'node:string_decoder';

/** Cuts a byte stream into lines of at most `maxLength` characters; longer ones come in pieces. */
export class LineSplitter {
  private readonly decoder = new StringDecoder('utf8');
  private rest = '';

  constructor(
    private readonly onLine: (line: string) => void,
    private readonly maxLength: number,
  ) {}

  /** Takes the next bytes. */
  write(chunk: Uint8Array): void {
    this.rest += this.decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    const lines = this.rest.split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.emit(line.endsWith('\r') ? line.slice(0, -1) : line);
    if (this.rest.length > this.maxLength) this.flush();
  }

  /** Hands over what is left without a line end. */
  flush(): void {
    const line = this.rest;
    this.rest = '';
    if (line !== '') this.emit(line);
  }

  private emit(line: string): void {
    for (let start = 0; start === 0 || start < line.length; start += this.maxLength) {
      this.onLine(line.slice(start, start + this.maxLength));
    }
  }
}
