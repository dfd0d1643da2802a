import { connect, createServer, type Socket } from 'node:net';
import { createTestDatabase, eventually, freePort, type TestDatabase } from '@codedock/testkit';
import pg from 'pg';
import { openDatabase } from './database.js';
import type { PrismaClient } from './generated/client.js';
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
      // Longer than a test may take: that this ends at all is the time of the statement.
      await expect(opened.rows('SELECT pg_sleep(600)', [])).rejects.toMatchObject({ code: 'store_unavailable' });
      expect(await opened.rows('SELECT 1 AS one', [])).toEqual([{ one: 1 }]);
    } finally {
      await opened.close();
    }
  });

  it('is asked to end the statement that nobody waits for any more, though it waits for a lock', async () => {
    const holder = new pg.Client(database.url);
    await holder.connect();
    // Long enough for the statement to be at the lock: a request that comes before it ends nothing.
    const opened = openDatabase({ url: database.url, maxConnections: 2, statementTimeoutMs: 1_000 });
    try {
      await holder.query('BEGIN; LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE');
      const update = "UPDATE tenants SET name = 'abandoned'";
      await expect(opened.rows(update, [])).rejects.toMatchObject({ code: 'store_unavailable' });
      await eventually(
        async () => {
          // Asked on another connection: within a transaction the view shows what it showed first.
          const at = await opened.rows(
            "SELECT wait_event_type FROM pg_stat_activity WHERE query = $1 AND state = 'active'",
            [update],
          );
          return at.length === 0;
        },
        { what: 'the statement to be ended' },
      );
    } finally {
      await holder.end();
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

describe('a database that goes away', () => {
  const works: readonly [string, (prisma: PrismaClient) => Promise<unknown>][] = [
    ['a read', (prisma) => prisma.tenant.findMany()],
    ['a transaction', (prisma) => prisma.$transaction(async (inside) => inside.tenant.findMany())],
  ];

  it.each(works)('before it is asked is unavailable: %s', async (_, work) => {
    const nowhere = new URL(database.url);
    nowhere.port = String(await freePort());
    const opened = openDatabase({ url: nowhere.href, maxConnections: 1 });
    try {
      await expect(opened.plain(work)).rejects.toMatchObject({ code: 'store_unavailable' });
    } finally {
      await opened.close();
    }
  });

  it.each([
    ['with a word', false],
    ['without a word', true],
  ])('in the middle of a transaction, %s, is unavailable, whatever the transaction is at', async (_, silent) => {
    for (const at of ['begin', 'read', 'write', 'commit']) {
      const cut = await startCut(database.url);
      const opened = openDatabase({ url: cut.url, maxConnections: 1 });
      const end = async () => {
        if (silent) cut.cut();
        else await cut.terminate();
      };
      try {
        await opened.rows('SELECT 1', []);
        if (at === 'begin') await end();
        const work = opened.plain((prisma) =>
          prisma.$transaction(async (inside) => {
            if (at === 'read') await end();
            await inside.tenant.findMany();
            if (at === 'write') await end();
            await inside.$executeRaw`SELECT 1`;
            if (at === 'commit') await end();
          }),
        );
        const outcome = await work.then(
          () => 'done',
          (error: { code?: string }) => error.code,
        );
        expect([at, outcome]).toEqual([at, 'store_unavailable']);
      } finally {
        await opened.close();
        await cut.close();
      }
    }
  });
});

describe('statements that get in each other’s way', () => {
  it('a deadlock costs its victim a second try, and nobody hears of it', async () => {
    const other = new pg.Client(database.url);
    await other.connect();
    const opened = openDatabase({ url: database.url, maxConnections: 2 });
    try {
      await opened.rows('CREATE TABLE pair (id int PRIMARY KEY, n int)', []);
      await opened.rows('INSERT INTO pair VALUES (1, 0), (2, 0)', []);
      await opened.rows(
        `CREATE FUNCTION raise_pair() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN UPDATE pair SET n = n + 1 WHERE id = 1; UPDATE pair SET n = n + 1 WHERE id = 2; END $$`,
        [],
      );
      // Who waits longer looks first: the other side must not be the one that looks.
      await other.query('BEGIN; UPDATE pair SET n = n + 10 WHERE id = 2');
      const both = opened.rows('SELECT raise_pair()', []);
      await eventually(
        async () => {
          const waiting = await opened.rows(
            "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT raise_pair()' AND wait_event_type = 'Lock'",
            [],
          );
          return waiting.length > 0;
        },
        { what: 'the function to wait' },
      );
      const crossing = other.query('UPDATE pair SET n = n + 10 WHERE id = 1').then(
        () => other.query('COMMIT'),
        () => other.query('ROLLBACK'),
      );
      await Promise.all([both, crossing]);
      const [one, two] = (await opened.rows<{ n: number }>('SELECT n FROM pair ORDER BY id', [])).map(({ n }) => n);
      expect(one).toBe(two);
      expect([1, 11]).toContain(one);
    } finally {
      await other.end();
      await opened.close();
    }
  });

  it('a statement that loses again and again is given up, and the client may come back', async () => {
    const opened = openDatabase({ url: database.url, maxConnections: 1 });
    try {
      await opened.rows('CREATE SEQUENCE tries', []);
      const losing = "DO $$ BEGIN PERFORM nextval('tries'); RAISE EXCEPTION USING ERRCODE = '40001'; END $$";
      await expect(opened.rows(losing, [])).rejects.toMatchObject({ code: 'store_unavailable', retryAfterMs: 1_000 });
      // A sequence keeps what was rolled back.
      expect(await opened.rows('SELECT last_value::int AS n FROM tries', [])).toEqual([{ n: 5 }]);
    } finally {
      await opened.close();
    }
  });
});

/** A way to a database that can be cut; `terminate` ends the server's side of all that came this way. */
async function startCut(url: string) {
  const to = new URL(url);
  const sockets: Socket[] = [];
  let refusing = false;
  const server = createServer((near) => {
    sockets.push(near);
    near.on('error', () => undefined);
    if (refusing) return void near.destroy();
    const far = connect(Number(to.port), '127.0.0.1');
    sockets.push(far);
    far.on('error', () => undefined);
    near.pipe(far).pipe(near);
    far.on('close', () => near.destroy());
    near.on('close', () => far.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  through.port = String((server.address() as { port: number }).port);
  const cut = () => {
    refusing = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: through.href,
    cut,
    async terminate() {
      refusing = true;
      const admin = new pg.Client(url);
      await admin.connect();
      await admin.query(
        'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      );
      await admin.end();
    },
    async close() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
