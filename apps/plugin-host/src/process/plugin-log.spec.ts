import pino from 'pino';
import { PluginLog, readLogLine } from './plugin-log.js';

describe('a line of a plugin', () => {
  it.each([
    [
      '{"@level":"warn","@message":"m","@timestamp":"x","@module":"p","k":1}',
      { level: 'warn', message: 'm', fields: { k: 1, module: 'p' } },
    ],
    ['{"@level":7,"@message":"m"}', { level: 'debug', message: 'm', fields: {} }],
    ['{"no":"hclog"}', { level: 'debug', message: '{"no":"hclog"}', fields: {} }],
    ['{broken', { level: 'debug', message: '{broken', fields: {} }],
    ['2026-01-01 [WARN] careful', { level: 'warn', message: 'careful', fields: {} }],
    ['[ERROR] bad', { level: 'error', message: 'bad', fields: {} }],
    ['panic: boom', { level: 'error', message: 'panic: boom', fields: {} }],
  ])('%s', (line, record) => {
    expect(readLogLine(line, false)).toEqual(record);
  });

  it('is an error after a panic', () => {
    expect(readLogLine('goroutine 1 [running]:', true).level).toBe('error');
  });
});

describe('the output of a plugin', () => {
  const written: { msg: string; suppressed?: number }[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void written.push(JSON.parse(line)) });
  let now = 0;

  beforeEach(() => {
    written.length = 0;
    now = 0;
  });

  it('is logged at a limited rate, what was left out is counted', () => {
    const output = new PluginLog(log, 10, () => now);
    output.write(Buffer.from('123456\n123456\n123456\n'));
    now = 1_500;
    output.write(Buffer.from('again\n'));
    expect(written.map(({ msg, suppressed }) => suppressed ?? msg)).toEqual(['123456', 2, 'again']);
  });

  it('keeps the last lines, also unfinished and endless ones', () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.write(Buffer.from(Array.from({ length: 20 }, (_, line) => `line ${line}\n`).join('')));
    output.write(Buffer.alloc(100_000, 'x'));
    output.write(Buffer.from('end'));
    output.end();
    expect(output.tail().at(-1)).toBe('end');
    expect(output.tail().at(-2)).toMatch(/^x{400}…$/);
    expect(output.tail().join('').length).toBeLessThanOrEqual(700);
  });

  it('keeps at most ten lines', () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.write(Buffer.from(Array.from({ length: 20 }, (_, line) => `line ${line}\n`).join('')));
    expect(output.tail()).toEqual(Array.from({ length: 10 }, (_, line) => `line ${line + 10}`));
  });

  it('keeps the cause of a panic, whatever the length of its stack traces', () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.write(Buffer.from('before\npanic: boom\n\ngoroutine 7 [running]:\n'));
    output.write(Buffer.from(Array.from({ length: 500 }, (_, line) => `\t/src/file.go:${line}\n`).join('')));
    expect(output.tail()).toHaveLength(10);
    expect(output.tail().slice(0, 3)).toEqual(['panic: boom', '', 'goroutine 7 [running]:']);
  });

  it("keeps hclog's records as text", () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.write(Buffer.from('{"@level":"error","@message":"cannot read","@module":"p","path":"/x","n":[1]}\n'));
    expect(output.tail()).toEqual(['cannot read path=/x n=[1] module=p']);
  });

  it('keeps no secret in the last lines', () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.write(Buffer.from('{"@level":"error","@message":"refused","password":"hunter2","user":"me"}\n'));
    output.write(Buffer.from('GET https://me:hunter2@policy.example/ with Bearer abcdefghijklmnop\n'));
    output.write(Buffer.from(`${'x'.repeat(390)} AKIAIOSFODNN7EXAMPLE\n`));
    expect(output.tail().join('\n')).not.toMatch(/hunter2|abcdefgh|AKIA/);
    expect(output.tail()[0]).toBe('refused password=[redacted] user=me');
  });

  it('keeps the lines of stderr apart from what is being printed', () => {
    const output = new PluginLog(log, 1e9, () => now);
    output.writePrinted(Buffer.from('half a '));
    output.write(Buffer.from('panic: boom\n'));
    output.writePrinted(Buffer.from('line\n'));
    expect(output.tail()).toEqual(['panic: boom', 'half a line']);
  });

  it('joins characters that were split between chunks', () => {
    const output = new PluginLog(log, 1e9, () => now);
    const bytes = Buffer.from('é\n');
    output.write(bytes.subarray(0, 1));
    output.write(bytes.subarray(1));
    expect(output.tail()).toEqual(['é']);
  });
});
