import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { eventually } from '@codedock/testkit';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js';

/** Node's timers may fire so much before their time. */
const TIMER_EARLY_MS = 2;

let echo: Server;
let proxy: TcpProxy;

beforeEach(async () => {
  echo = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  await proxy.close();
  await new Promise((resolve) => echo.close(resolve));
});

const echoPort = () => (echo.address() as { port: number }).port;

/** A client that keeps what it hears. */
async function client() {
  const socket = connect(proxy.port, '127.0.0.1');
  let heard = '';
  let closed = false;
  socket.on('error', () => undefined);
  socket.on('data', (bytes) => {
    heard += bytes.toString();
  });
  socket.on('close', () => {
    closed = true;
  });
  await once(socket, 'connect');
  return {
    say: (text: string) => socket.write(text),
    hears: (text: string) => eventually(() => heard === text, { what: text }),
    heard: () => heard,
    closed: () => closed,
    closes: () => eventually(() => closed, { what: 'the end of the connection' }),
  };
}

test('bytes pass until the way is cut, which ends old and new connections, and again when it is healed', async () => {
  proxy = await startTcpProxy({ to: echoPort() });
  const one = await client();
  one.say('a');
  await one.hears('a');
  proxy.cut('reject');
  await one.closes();
  await (await client()).closes();
  proxy.heal();
  const two = await client();
  two.say('b');
  await two.hears('b');
});

test('a black hole swallows bytes of old and new connections and tells nobody; healed, they arrive', async () => {
  proxy = await startTcpProxy({ to: echoPort() });
  const one = await client();
  one.say('a');
  await one.hears('a');
  proxy.cut('drop');
  one.say('b');
  const two = await client();
  two.say('c');
  expect([one.heard(), two.heard()]).toEqual(['a', '']);
  proxy.heal();
  await one.hears('ab');
  await two.hears('c');
});

test('half-open: the server sees the end of a connection at once, the client only when the way is healed', async () => {
  proxy = await startTcpProxy({ to: echoPort() });
  let ended = 0;
  echo.on('connection', (socket) => socket.on('close', () => (ended += 1)));
  const one = await client();
  one.say('a');
  await one.hears('a');
  proxy.cut('half-open');
  await eventually(() => ended === 1, { what: 'the end of the connection at the server' });
  expect(one.closed()).toBe(false);
  proxy.heal();
  await one.closes();
});

test('one way: what is sent arrives, the answer comes when the way is healed', async () => {
  let arrived = '';
  proxy = await startTcpProxy({ to: echoPort() });
  echo.on('connection', (socket) => socket.on('data', (bytes) => (arrived += bytes.toString())));
  const one = await client();
  one.say('a');
  await one.hears('a');
  proxy.cut('one-way');
  one.say('b');
  await eventually(() => arrived === 'ab', { what: 'what was sent' });
  expect(one.heard()).toBe('a');
  proxy.heal();
  await one.hears('ab');
});

test('late bytes stay in their order', async () => {
  proxy = await startTcpProxy({ to: echoPort() });
  proxy.slow({ meanMs: 40, jitterMs: 40 });
  const one = await client();
  const said = 'abcdefghij';
  for (const letter of said) {
    one.say(letter);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  await one.hears(said);
});

test('lost bytes come later, in their order', async () => {
  proxy = await startTcpProxy({ to: echoPort(), random: () => 0 });
  proxy.slow({ loss: 0.02 });
  const one = await client();
  const began = performance.now();
  one.say('a');
  await one.hears('a');
  // Lost on both ways; TCP's least time until it sends again, on each.
  expect(performance.now() - began).toBeGreaterThanOrEqual(400 - TIMER_EARLY_MS);
  one.say('b');
  await one.hears('ab');
});

test('a narrow way carries so many bytes a second, and never less than all of them', async () => {
  proxy = await startTcpProxy({ to: echoPort() });
  proxy.slow({ bytesPerSecond: 1_024 });
  const one = await client();
  const began = performance.now();
  one.say('x'.repeat(256));
  one.say('y');
  await one.hears(`${'x'.repeat(256)}y`);
  expect(performance.now() - began).toBeGreaterThanOrEqual(500 - 2 * TIMER_EARLY_MS);
  proxy.slow({});
  one.say('z');
  await one.hears(`${'x'.repeat(256)}yz`);
});

test('a filter sees both directions and may end a connection instead of passing an answer', async () => {
  const asked: string[] = [];
  proxy = await startTcpProxy({
    to: echoPort(),
    filter: () => ({
      fromClient: (bytes) => void asked.push(bytes.toString()),
      fromServer: (bytes) => (bytes.toString() === 'bad' ? 'sever' : bytes),
    }),
  });
  const one = await client();
  one.say('good');
  await one.hears('good');
  one.say('bad');
  await one.closes();
  expect(asked).toEqual(['good', 'bad']);
  expect(one.heard()).toBe('good');
});

test('it leads elsewhere: connections to the former place end, new ones are made to the other', async () => {
  const other = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end('elsewhere');
  });
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  proxy = await startTcpProxy({ to: echoPort() });
  const one = await client();
  one.say('a');
  await one.hears('a');
  proxy.moveTo((other.address() as { port: number }).port);
  await one.closes();
  const two = await client();
  await two.hears('elsewhere');
  await new Promise((resolve) => other.close(resolve));
});
