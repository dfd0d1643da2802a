import { LineOutput } from './line-output.js';

const failing = (code: string) => Object.assign(new Error(code), { code });

/** A reader that takes at most so many bytes at a time, and none at all while it is slow or gone. */
class Reader {
  text = '';
  state: 'reading' | 'slow' | 'gone' = 'reading';
  calls = 0;
  constructor(private readonly most = 5) {}

  readonly write = (_fd: number, bytes: Buffer): number => {
    this.calls += 1;
    if (this.state !== 'reading') throw failing(this.state === 'slow' ? 'EAGAIN' : 'EPIPE');
    const taken = bytes.subarray(0, this.most);
    this.text += taken.toString('latin1');
    return taken.length;
  };
}

const KIB = 'x'.repeat(1023);

describe('log lines', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('are written at once, whole and in order, however little the reader takes', () => {
    const reader = new Reader();
    const output = new LineOutput(1, reader.write);
    output.write('the first line\n');
    output.write('2\n');
    expect(reader.text).toBe('the first line\n2\n');
  });

  it('wait in order for a slow reader', () => {
    const reader = new Reader();
    const output = new LineOutput(1, reader.write);
    reader.state = 'slow';
    output.write('the first line\n');
    output.write('2\n');
    jest.advanceTimersByTime(100);
    expect(reader.text).toBe('');
    reader.state = 'reading';
    jest.advanceTimersByTime(100);
    expect(reader.text).toBe('the first line\n2\n');
  });

  it('beyond 8 MiB are dropped, which is said', () => {
    const reader = new Reader(1024);
    const output = new LineOutput(1, reader.write);
    reader.state = 'slow';
    for (let n = 0; n < 8 * 1024 + 3; n += 1) output.write(`${KIB}\n`);
    reader.state = 'reading';
    jest.advanceTimersByTime(100);
    const lines = reader.text.trimEnd().split('\n');
    expect(lines).toHaveLength(8 * 1024 + 1);
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 'warn', dropped: 3, msg: 'log lines were dropped' });
  });

  it('go nowhere once the reader is gone, without another try', () => {
    const reader = new Reader();
    const output = new LineOutput(1, reader.write);
    reader.state = 'gone';
    output.write('a\n');
    output.write('b\n');
    jest.advanceTimersByTime(1_000);
    expect(reader.calls).toBe(1);
  });
});

describe('at the end of the process', () => {
  it('what waits is written', () => {
    const reader = new Reader();
    const output = new LineOutput(1, reader.write);
    reader.state = 'slow';
    output.write('late\n');
    reader.state = 'reading';
    output.flushSync();
    expect(reader.text).toBe('late\n');
  });

  it.each(['slow', 'gone'] as const)('a reader that is %s does not keep it', (state) => {
    const reader = new Reader();
    const output = new LineOutput(1, reader.write);
    reader.state = 'slow';
    output.write('never\n');
    reader.state = state;
    // Returns at all: a reader like this is waited for no longer than a bounded time.
    output.flushSync();
    expect(reader.text).toBe('');
  });
});
