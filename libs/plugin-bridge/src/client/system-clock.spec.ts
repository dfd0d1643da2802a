import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { systemClock } from './system-clock.js';

/** Keeps the process from doing anything else, as a long garbage collection does. */
function stall(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('a timer of the system clock', () => {
  it('runs once after its time, and not at all when it was taken back', async () => {
    const runs: string[] = [];
    const cancel = systemClock.after(5, () => runs.push('taken back'));
    await new Promise<void>((resolve) => {
      systemClock.after(10, () => {
        runs.push('due');
        resolve();
      });
      cancel();
      setTimeout(() => undefined, 50);
    });
    expect(runs).toEqual(['due']);
  });

  it('of a process that stalled lets in what arrived in time', async () => {
    const server = createServer((socket) => socket.on('data', () => socket.write('answer'))).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const socket: Socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    try {
      await once(socket, 'connect');
      const first = await new Promise((resolve) => {
        systemClock.after(200, () => resolve('time is up'));
        socket.once('data', () => resolve('answer'));
        socket.write('question');
        // The server is in this process: give it its turn, then stall beyond the timer with the answer in the socket.
        setImmediate(() => setImmediate(() => stall(300)));
      });
      expect(first).toBe('answer');
    } finally {
      socket.destroy();
      server.close();
      await once(server, 'close');
    }
  });
});
