import { Writable } from 'node:stream';
import { FrameWriter } from './frame-writer.js';

/** A pipe whose other side reads one chunk when told to. */
function slowPipe() {
  const read: string[] = [];
  let next: (() => void) | undefined;
  const pipe = new Writable({
    highWaterMark: 16,
    write(chunk: Buffer, _, done) {
      next = () => {
        read.push(chunk.toString());
        done();
      };
    },
  });
  const take = async () => {
    const taken = next;
    next = undefined;
    taken?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { pipe, read, take };
}

const line = (text: string, bytes = 300_000) => Buffer.from(text.padEnd(bytes, '.'));

it('keeps what is not read up to a cap, and refuses the rest', async () => {
  const { pipe, read, take } = slowPipe();
  const writer = new FrameWriter(pipe, 1_000_000);
  const accepted = ['a', 'b', 'c', 'd', 'e', 'f'].map((text) => writer.write(line(text)) !== undefined);
  // The first is on its way, three wait.
  expect(accepted).toEqual([true, true, true, true, false, false]);
  expect(writer.unreadBytes).toBe(4 * 300_000);
  for (let round = 0; round < 4; round++) await take();
  expect(read.map((text) => text[0])).toEqual(['a', 'b', 'c', 'd']);
  expect(writer.unreadBytes).toBe(0);
  expect(writer.write(line('g'))).toBeDefined();
});

it('takes back what is not on its way', async () => {
  const { pipe, read, take } = slowPipe();
  const writer = new FrameWriter(pipe, 1_000_000);
  const [first, second, third] = ['a', 'b', 'c'].map((text) => writer.write(line(text)));
  expect(first?.takeBack()).toBe(false);
  expect(second?.takeBack()).toBe(true);
  expect(second?.takeBack()).toBe(false);
  for (let round = 0; round < 3; round++) await take();
  expect(read.map((text) => text[0])).toEqual(['a', 'c']);
  expect(third?.takeBack()).toBe(false);
});

it('takes nothing once it is closed or its pipe has broken', () => {
  const { pipe } = slowPipe();
  const writer = new FrameWriter(pipe, 1_000);
  writer.close();
  writer.close();
  expect(writer.open).toBe(false);
  expect(writer.write(Buffer.from('a'))).toBeUndefined();
  const broken = slowPipe();
  const other = new FrameWriter(broken.pipe, 1_000);
  broken.pipe.on('error', () => undefined);
  broken.pipe.destroy(new Error('EPIPE'));
  expect(other.write(Buffer.from('a'))).toBeUndefined();
});
