import fc from 'fast-check';
import { LineReader } from './line-reader.js';

function read(chunks: readonly Buffer[], cap = 64) {
  const lines: string[] = [];
  const tooLong: string[] = [];
  const reader = new LineReader(
    { onLine: (line) => lines.push(line.toString()), onTooLong: (beginning) => tooLong.push(beginning.toString()) },
    cap,
  );
  for (const chunk of chunks) reader.write(chunk);
  reader.end();
  return { lines, tooLong };
}

const parts = (text: string, sizes: readonly number[]) => {
  const bytes = Buffer.from(text);
  const cut: Buffer[] = [];
  let from = 0;
  for (const size of sizes) {
    cut.push(bytes.subarray(from, from + size));
    from += size;
  }
  return [...cut, bytes.subarray(from)];
};

it('gives the same lines however the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 10 })), fc.array(fc.nat(7)), (texts, sizes) => {
      const wanted = texts.map((text) => text.replace(/[\r\n]/g, ' '));
      const { lines } = read(parts(wanted.map((line) => `${line}\n`).join(''), sizes), 1_000);
      expect(lines).toEqual(wanted.filter((line) => line !== ''));
    }),
  );
});

it('takes CRLF, empty lines and a last line without an end', () => {
  expect(read([Buffer.from('a\r\n\n\r\nb\nc')]).lines).toEqual(['a', 'b', 'c']);
});

it('drops a line over the cap, wherever it is cut, and goes on behind it', () => {
  const long = `{"id":7,${'x'.repeat(500)}`;
  for (const sizes of [[], [10], [63, 1, 1], [200, 300], Array.from({ length: 50 }, () => 10)]) {
    const { lines, tooLong } = read(parts(`ok\n${long}\nafter\n`, sizes));
    expect(lines).toEqual(['ok', 'after']);
    expect(tooLong).toHaveLength(1);
    expect(tooLong[0]).toMatch(/^\{"id":7,x/);
    expect(tooLong[0]?.length).toBeLessThanOrEqual(256);
  }
  expect(read([Buffer.from('x'.repeat(64))]).lines).toHaveLength(1);
});
