import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { eventually, expectNoLeftovers, nodeTypeScript, startProcess, within } from '@codedock/testkit';

afterAll(() => expectNoLeftovers());

const platform = JSON.stringify(path.resolve(__dirname, '../index.ts'));

function program(script: string) {
  const { command, args } = nodeTypeScript('none');
  return { command, args: [...args.slice(0, 2), '-e', `const platform = require(${platform});${script}`] };
}

const SERVICE = `
  const logger = platform.createLogger({ app: 'x', level: 'info', format: 'json' });
  const shutdown = new platform.Shutdown({ logger, deadlineMs: 20000 });
  const keepAlive = setInterval(() => {}, 1000);
  shutdown.listen();
`;

describe('signals', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('%s runs the steps and exits with 0', async (signal) => {
    const running = await startProcess({
      ...program(`${SERVICE} shutdown.register('part', () => console.log('part stopped')); console.log('up');`),
      ready: /^up$/m,
    });
    running.signal(signal);
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.output()).toContain('part stopped');
  });

  test('a second one exits at once while a step hangs', async () => {
    const running = await startProcess({
      ...program(
        `${SERVICE} shutdown.register('part', () => { console.log('hanging'); return new Promise(() => {}); }); console.log('up');`,
      ),
      ready: /^up$/m,
    });
    running.signal('SIGTERM');
    await running.waitForOutput(/hanging/);
    running.signal('SIGTERM');
    expect(await running.exited).toEqual({ code: 143, signal: null });
  });
});

describe('a program whose log nobody reads any more', () => {
  test.each(['stuck', 'gone'])('ends all the same (the reader is %s)', async (reader) => {
    const { command, args } = program(
      // Who touches process.stdout makes writing to it fail, rather than wait, while the reader is slow.
      `process.stdout; ${SERVICE} for (let n = 0; n < 200; n += 1) logger.info({ n, filler: 'x'.repeat(10000) }, 'line'); process.stderr.write('up');`,
    );
    const running = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    try {
      // Not read: the pipe is full and lines wait.
      running.stdout.pause();
      await once(running.stderr, 'data');
      if (reader === 'gone') running.stdout.destroy();
      running.kill('SIGTERM');
      expect(await within(once(running, 'exit'), 15_000, 'the program to end')).toEqual([0, null]);
    } finally {
      running.kill('SIGKILL');
      running.stdout.destroy();
    }
  });
});

describe('a child whose parent is killed', () => {
  const child = `platform.watchParent(() => { console.log('parent gone'); process.exit(0); }); setInterval(() => {}, 1000); console.log('child ' + process.pid);`;

  test.each(['pipe', 'ignore'])('ends itself (standard input: %s)', async (stdin) => {
    const { command, args } = program(child);
    const parent = await startProcess({
      command: process.execPath,
      args: [
        '-e',
        `require('child_process').spawn(${JSON.stringify(command)}, ${JSON.stringify(args)}, { stdio: ['${stdin}', 'inherit', 'inherit'] }); setInterval(() => {}, 1000);`,
      ],
      ready: /child \d+/,
    });
    const pid = Number(/child (\d+)/.exec(parent.output())?.[1]);
    await parent.kill();
    await eventually(() => expect(isRunning(pid)).toBe(false), { what: 'the child to end' });
  });

  test('stays while the parent lives, with a standard input that is at its end', async () => {
    const running = await startProcess({ ...program(child), ready: /child \d+/ });
    await expect(running.waitForOutput(/parent gone/, 1_200)).rejects.toThrow('Waited');
    await running.kill();
  });
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
