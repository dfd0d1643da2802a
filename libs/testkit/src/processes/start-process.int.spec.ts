import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { eventually } from './eventually.js';
import { freePort } from './free-port.js';
import { expectNoLeftovers, recordExit, recordStart, temporaryFolder } from './leftovers.js';
import { nodeTypeScript, startProcess } from './start-process.js';

afterAll(() => expectNoLeftovers());

const node = (script: string) => ({ command: process.execPath, args: ['-e', script] });

test('the pid is the program itself, output and exit are captured', async () => {
  const running = await startProcess({
    ...node('console.log("pid", process.pid); console.error("bad"); setInterval(() => {}, 1000);'),
    ready: /pid \d+/,
  });
  await running.waitForOutput(/bad/);
  expect(running.stdout()).toBe(`pid ${running.pid}\n`);
  expect(running.stderr()).toBe('bad\n');
  expect(await running.stop()).toEqual({ code: null, signal: 'SIGTERM' });
});

test('the program has no child that the test did not ask for', async () => {
  const running = await startProcess({ ...node('console.log("up"); setInterval(() => {}, 1000);'), ready: /up/ });
  expect(await readFile(`/proc/${running.pid}/task/${running.pid}/children`, 'utf8')).toBe('');
  expect((await running.kill()).signal).toBe('SIGKILL');
});

test('only the named environment is passed on', async () => {
  process.env['TEST_ONLY_SECRET'] = 'x';
  const running = await startProcess({
    ...node('console.log(JSON.stringify(process.env))'),
    env: { GIVEN: 'yes' },
    ready: /GIVEN/,
  });
  delete process.env['TEST_ONLY_SECRET'];
  await running.exited;
  expect(running.output()).toContain('"GIVEN":"yes"');
  expect(running.output()).not.toContain('TEST_ONLY_SECRET');
});

test('an address is ready when it answers 2xx', async () => {
  const port = await freePort();
  const running = await startProcess({
    ...node(
      `let n = 0; require('http').createServer((q, r) => { r.statusCode = n++ ? 200 : 503; r.end(); }).listen(${port}, '127.0.0.1')`,
    ),
    ready: `http://127.0.0.1:${port}/`,
  });
  await running.kill();
});

test('a program that ends before it is ready fails with its output', async () => {
  await expect(
    startProcess({ ...node('console.error("no database"); process.exit(3)'), ready: /listening/ }),
  ).rejects.toThrow(/it ended with code 3\s+no database/);
});

test('stdin reaches the program', async () => {
  const running = await startProcess({ command: 'cat', stdin: 'pipe' });
  running.stdin?.end('hello');
  await running.exited;
  expect(running.output()).toBe('hello');
});

test('kill -9 of the test run ends what it started', async () => {
  const script = `
    const { startProcess } = require('./libs/testkit/src/processes/start-process.ts');
    startProcess({ command: 'sleep', args: ['600'] }).then(({ pid }) => console.log('child ' + pid));
    setInterval(() => {}, 1000);`;
  const { command, args } = nodeTypeScript('unused');
  const starter = await startProcess({
    command,
    args: [...args.slice(0, 2), '-e', script],
    cwd: `${__dirname}/../../../..`,
    ready: /child \d+/,
  });
  const child = Number(/child (\d+)/.exec(starter.output())?.[1]);
  expect(existsSync(`/proc/${child}`)).toBe(true);
  await starter.kill();
  await eventually(async () => {
    const stat = await readFile(`/proc/${child}/stat`, 'utf8').catch(() => 'gone Z');
    expect(stat).toMatch(/gone| Z /);
  });
});

describe('expectNoLeftovers', () => {
  test('names a process, a folder and a socket that are left', async () => {
    const folder = await temporaryFolder();
    recordStart(4_000_000, 'forgotten');
    const server = createServer().listen(0, '127.0.0.1');
    await expect(expectNoLeftovers({ timeoutMs: 50 })).rejects.toThrow(
      /process 4000000 \(forgotten\), folder .*codedock-test-.*, 1 TCP sockets/,
    );
    recordExit(4_000_000);
    server.close();
    await folder.remove();
    await expectNoLeftovers();
  });

  test('names each side of a connection', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [accepted] = (await once(server, 'connection')) as [Socket];
    await expect(expectNoLeftovers({ timeoutMs: 50 })).rejects.toThrow(/3 TCP sockets/);
    client.destroy();
    accepted.destroy();
    server.close();
    await expectNoLeftovers();
  });
});
