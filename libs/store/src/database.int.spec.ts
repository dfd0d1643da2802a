import { createServer, type Socket } from 'node:net';
import { createTestDatabase, type TestDatabase } from '@codedock/testkit';
import { openDatabase } from './database.js';
import { lead } from './lead.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database?.drop());

describe('a database that does not answer', () => {
  it('is unavailable after the time of a statement, and the next statement has a connection of its own', async () => {
    const opened = openDatabase({ url: database.url, maxConnections: 1, statementTimeoutMs: 300 });
    try {
      const asked = performance.now();
      await expect(opened.rows('SELECT pg_sleep(2)', [])).rejects.toMatchObject({ code: 'store_unavailable' });
      expect(performance.now() - asked).toBeLessThan(1_500);
      expect(await opened.rows('SELECT 1 AS one', [])).toEqual([{ one: 1 }]);
    } finally {
      await opened.close();
    }
  });

  it('keeps nobody who wants to lead', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    try {
      const led = lead(`postgres://someone@127.0.0.1:${port}/nothing`, 'reconciler', 300);
      await expect(led).rejects.toMatchObject({ code: 'store_unavailable' });
    } finally {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => silent.close(resolve));
    }
  });
});
