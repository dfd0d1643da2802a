import { context, TraceFlags, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { Secret } from '../config/index.js';
import { createLogger, type LoggerOptions } from './logger.js';
import { NestLogger } from './nest-logger.js';
import { prettyLine } from './pretty.js';

function logging(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    app: 'runner',
    level: 'trace',
    format: 'json',
    to: { write: (line) => void lines.push(line) },
    ...options,
  });
  return { logger, lines, last: () => JSON.parse(lines.at(-1) ?? '') as Record<string, unknown> };
}

test('a line is one JSON object with level, time, app and message', () => {
  const { logger, lines, last } = logging();
  logger.info({ runId: 'r1' }, 'lease taken');
  expect(lines.at(-1)).toMatch(/^\{.*\}\n$/);
  expect(last()).toMatchObject({ level: 'info', app: 'runner', runId: 'r1', msg: 'lease taken' });
  expect(String(last()['time'])).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
});

test('a level below the chosen one writes nothing', () => {
  const { logger, lines } = logging({ level: 'warn' });
  logger.info('no');
  expect(lines).toEqual([]);
});

test('secrets are replaced wherever they come in', () => {
  const { logger, lines } = logging();
  const url = 'postgresql://codedock:hunter2@db/x';
  const cause = new Error(`cannot reach ${url}`);
  const error = Object.assign(new Error(`start failed with ${url}`, { cause }), { password: 'hunter2' });
  logger.info({ headers: { Authorization: 'Bearer hunter2hunter2', 'X-Api-Key': 'hunter2' } }, `using ${url}`);
  logger.error({ err: error }, 'failed');
  logger.error(error);
  logger.warn({ list: [{ clientSecret: 'hunter2' }], key: new Secret('hunter2') });
  logger.child({ token: 'hunter2', at: url }).info('child of %s', url);
  logger.info('key sk-hunter2hunter2hunter2');
  expect(lines).toHaveLength(6);
  for (const line of lines) {
    expect(line).not.toContain('hunter2');
    expect(() => JSON.parse(line) as unknown).not.toThrow();
  }
});

test('an error keeps type, message, stack, code and cause', () => {
  const { logger, last } = logging();
  const error = Object.assign(new TypeError('outer', { cause: new Error('inner') }), { code: 'ECONNREFUSED' });
  logger.error({ err: error }, 'failed');
  expect(last()['err']).toMatchObject({
    type: 'TypeError',
    message: 'outer',
    code: 'ECONNREFUSED',
    stack: expect.stringContaining('logger.spec.ts'),
    cause: { message: 'inner' },
  });
});

test('inside a span a line carries its ids', () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const { logger, last } = logging();
  const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: TraceFlags.SAMPLED };
  context.with(trace.setSpanContext(context.active(), spanContext), () => logger.info('inside'));
  expect(last()).toMatchObject({ trace_id: spanContext.traceId, span_id: spanContext.spanId });
  logger.info('outside');
  expect(last()).not.toHaveProperty('trace_id');
  context.disable();
});

test('pretty lines keep time, level, message and members', () => {
  const { logger, lines } = logging({ format: 'pretty' });
  logger.warn({ runId: 'r1' }, 'lease lost');
  expect(lines.at(-1)).toMatch(/^\d\d:\d\d:\d\d\.\d{3} WARN {2}runner lease lost runId="r1"\n$/);
  expect(prettyLine('no json')).toBe('no json');
});

test("Nest's calls keep context, stack and errors", () => {
  const { logger, last } = logging();
  const nest = new NestLogger(logger);
  nest.log('mapped', 'RouterExplorer');
  expect(last()).toMatchObject({ level: 'info', msg: 'mapped', context: 'RouterExplorer' });
  nest.error('boom', 'Error: boom\n at x', 'Handler');
  expect(last()).toMatchObject({ level: 'error', msg: 'boom', context: 'Handler', stack: 'Error: boom\n at x' });
  nest.warn(new Error('odd'));
  expect(last()).toMatchObject({ level: 'warn', msg: 'odd', err: { type: 'Error' } });
});
