import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { freePort } from './free-port.js';
import { nodeTypeScript, startProcess } from './start-process.js';

/** Prints as many ports as it is told, one a line. */
const asking = (count: number) => {
  const { command, args } = nodeTypeScript('unused');
  const script = `
    const { freePort } = require('./libs/testkit/src/processes/free-port.ts');
    Promise.all(Array.from({ length: ${count} }, freePort)).then((ports) => console.log(ports.join('\\n') + '\\nall'));
    setInterval(() => {}, 1000);`;
  return { command, args: [...args.slice(0, 2), '-e', script], cwd: `${__dirname}/../../../..`, ready: /all/ };
};

test('processes that ask at the same time get ports of their own, which can be listened on', async () => {
  const askers = await Promise.all([startProcess(asking(300)), startProcess(asking(300))]);
  try {
    const own = await Promise.all(Array.from({ length: 300 }, freePort));
    const theirs = askers.flatMap((each) => each.stdout().match(/^\d+$/gm)?.map(Number) ?? []);
    expect(theirs).toHaveLength(600);
    expect(new Set([...own, ...theirs]).size).toBe(900);
  } finally {
    await Promise.all(askers.map((each) => each.kill()));
  }
});

test('a port can be listened on at once, and connections that the system gives ports never have it', async () => {
  const port = await freePort();
  const server = createServer((socket) => socket.end()).listen(port, '127.0.0.1');
  await once(server, 'listening');
  const client = connect(port, '127.0.0.1');
  await once(client, 'connect');
  expect(client.localPort).toBeGreaterThan(32_767);
  client.destroy();
  server.close();
  await once(server, 'close');
});
