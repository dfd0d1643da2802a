import { createLogger } from '../logging/index.js';
import { Shutdown } from './shutdown.js';

function shuttingDown(deadlineMs = 1_000) {
  const lines: string[] = [];
  const codes: number[] = [];
  const logger = createLogger({
    app: 'x',
    level: 'info',
    format: 'json',
    to: { write: (line) => void lines.push(line) },
  });
  return { shutdown: new Shutdown({ logger, deadlineMs, exit: (code) => void codes.push(code) }), lines, codes };
}

test('steps run one after another, the last registered first, and only once', async () => {
  const { shutdown, codes } = shuttingDown();
  const order: string[] = [];
  for (const name of ['database', 'queue', 'http']) {
    shutdown.register(name, async () => {
      order.push(`${name} begins`);
      await Promise.resolve();
      order.push(`${name} ends`);
    });
  }
  await Promise.all([shutdown.runAndExit('test'), shutdown.run('again')]);
  expect(order).toEqual(['http begins', 'http ends', 'queue begins', 'queue ends', 'database begins', 'database ends']);
  expect(codes).toEqual([0]);
});

test('a failing step is logged, the others still run, the exit code is 1', async () => {
  const { shutdown, lines, codes } = shuttingDown();
  let closed = false;
  shutdown.register('database', () => {
    closed = true;
  });
  shutdown.register('http', () => {
    throw new Error('already closed');
  });
  await shutdown.runAndExit('test');
  expect(closed).toBe(true);
  expect(codes).toEqual([1]);
  expect(lines.join('')).toContain('already closed');
});

test('a hanging step is told and given up at the deadline, later ones are skipped', async () => {
  const { shutdown, lines } = shuttingDown(50);
  let told = false;
  let reached = false;
  shutdown.register('after', () => {
    reached = true;
  });
  shutdown.register('hanging', (signal) => {
    signal.addEventListener('abort', () => {
      told = true;
    });
    return new Promise(() => undefined);
  });
  expect(await shutdown.run('test')).toBe(false);
  expect([told, reached]).toEqual([true, false]);
  expect(lines.join('')).toContain('"step":"after","msg":"shutdown deadline is over: step skipped"');
});

test('`begun` is aborted first, and no step can be added then', async () => {
  const { shutdown } = shuttingDown();
  let seen = false;
  shutdown.register('only', () => {
    seen = shutdown.begun.aborted;
  });
  expect(shutdown.begun.aborted).toBe(false);
  await shutdown.run('test');
  expect(seen).toBe(true);
  expect(() => shutdown.register('late', () => undefined)).toThrow('cannot be registered');
});
