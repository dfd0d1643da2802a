import { createServer } from 'node:net';
import { inspect } from 'node:util';
import type { Ring } from '@codedock/domain';
import {
  createTestDatabase,
  describeWithRedis,
  eventually,
  type RedisGroup,
  startRedis,
  startRedisCluster,
  startRedisSentinels,
  type TestRedis,
} from '@codedock/testkit';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { createDoorbell, type DoorbellConnection } from './doorbell.js';
import { createDoorbellWorker, type DoorbellWorker, type RingHandler } from './doorbell-worker.js';
import type { QueueIncident } from './queue-reporter.js';
import { prepareQueueSchema } from './queue-schema.js';
import { RingGivenBack } from './ring-given-back.js';

interface Backend {
  readonly url: string;
  /** Breaks every connection; the server stays. */
  disconnectAll(): Promise<void>;
  /** Server processes that serve this queue's connections. */
  connections(): Promise<number>;
  close(): Promise<void>;
}

function suite(open: () => Promise<Backend>): void {
  let backend: Backend;
  let doorbell: DoorbellConnection;
  const workers: DoorbellWorker[] = [];
  let run = 0;

  beforeAll(async () => {
    backend = await open();
    doorbell = await createDoorbell(backend.url);
  });
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
  });
  afterAll(async () => {
    await doorbell?.close();
    await backend?.close();
  });

  const ring = (runId: string, more: Partial<Ring> = {}) =>
    doorbell.ring({ runId, doorbell: 1, priority: 1, trace: {}, ...more });
  const nextRun = () => `0198c0de-0000-7000-8000-${String(++run).padStart(12, '0')}`;
  /** Rings of other tests may still wait in the queue: only those of these runs are answered. */
  const listen = async (
    runIds: readonly string[],
    onRing: RingHandler,
    options: { concurrency?: number; paused?: boolean; report?: (incident: QueueIncident) => void } = {},
  ) => {
    const worker = await createDoorbellWorker(backend.url, {
      concurrency: 4,
      ...options,
      onRing: async (runId, trace, signal) => {
        if (runIds.includes(runId)) await onRing(runId, trace, signal);
      },
    });
    workers.push(worker);
    return worker;
  };

  it('brings run id and trace context', async () => {
    const rung: unknown[] = [];
    const runId = nextRun();
    await listen([runId], async (_, trace) => void rung.push([runId, trace]));
    await ring(runId, { trace: { traceparent: '00-a-b-01' } });
    await eventually(() => expect(rung).toEqual([[runId, { traceparent: '00-a-b-01' }]]));
  });

  it('tells which rings wait', async () => {
    const runId = nextRun();
    const before = await doorbell.waiting();
    await ring(runId, { doorbell: 3 });
    expect(await doorbell.waiting()).toBe(before + 1);
    expect(await doorbell.waits({ runId, doorbell: 3 })).toBe(true);
    expect(await doorbell.waits({ runId, doorbell: 4 })).toBe(false);
    let finish = () => {};
    const working = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let taken = false;
    await listen([runId], () => {
      taken = true;
      return working;
    });
    await eventually(() => taken);
    expect(await doorbell.waits({ runId, doorbell: 3 })).toBe(false);
    finish();
  });

  it('delivers equal rings once while they wait, and the same id again after it was answered', async () => {
    const rung: string[] = [];
    const runId = nextRun();
    const worker = await listen([runId], async () => void rung.push(runId), { paused: true });
    await ring(runId);
    await ring(runId);
    worker.resume();
    await eventually(() => expect(rung).toEqual([runId]));
    await eventually(async () => {
      await ring(runId);
      return rung.length >= 2;
    });
  });

  it('serves tenants with few runs in flight first', async () => {
    const rung: string[] = [];
    const [busy, quiet, flooding] = [nextRun(), nextRun(), nextRun()];
    const options = { paused: true, concurrency: 1 };
    const worker = await listen([busy, quiet, flooding], async (runId) => void rung.push(runId), options);
    await ring(busy, { priority: 900 });
    await ring(quiet, { priority: 1 });
    await ring(flooding, { priority: 1e12 });
    worker.resume();
    await eventually(() => expect(rung).toEqual([quiet, busy, flooding]));
  });

  it('gives a ring back that cannot be answered here: another takes it', async () => {
    const runId = nextRun();
    const answered: string[] = [];
    let given = 0;
    const first: DoorbellWorker = await listen([runId], async () => {
      given += 1;
      first.pause();
      throw new RingGivenBack();
    });
    await ring(runId);
    await eventually(() => given === 1);
    await eventually(() => doorbell.waits({ runId, doorbell: 1 }));
    await listen([runId], async () => void answered.push(runId));
    await eventually(() => expect(answered).toEqual([runId]));
    expect(given).toBe(1);
  });

  it('finishes a ring whose answer throws, and reports it', async () => {
    const incidents: QueueIncident[] = [];
    let calls = 0;
    const runId = nextRun();
    await listen(
      [runId],
      async () => {
        calls += 1;
        throw new Error('boom');
      },
      { report: (incident) => incidents.push(incident) },
    );
    await ring(runId);
    await eventually(() =>
      expect(incidents).toEqual([{ kind: 'queue_error', error: expect.objectContaining({ message: 'boom' }) }]),
    );
    expect(calls).toBe(1);
  });

  it('stops taking jobs at once while those in work continue', async () => {
    const taken: string[] = [];
    let finish = () => {};
    const working = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const [inWork, later] = [nextRun(), nextRun()];
    const first = await listen([inWork, later], async (runId) => {
      taken.push(runId);
      await working;
    });
    await ring(inWork);
    await eventually(() => expect(taken).toEqual([inWork]));
    first.stop();
    await ring(later);
    const second: string[] = [];
    await listen([inWork, later], async (runId) => void second.push(runId));
    await eventually(() => expect(second).toEqual([later]));
    expect(taken).toEqual([inWork]);
    finish();
    await first.close();
  });

  it('aborts jobs in work only when it is closed by force', async () => {
    let reason: unknown;
    let started = false;
    const runId = nextRun();
    const worker = await listen([runId], (_runId, _trace, signal) => {
      started = true;
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason;
          reject(signal.reason);
        });
      });
    });
    await ring(runId);
    await eventually(() => started);
    await worker.close({ force: true });
    expect(reason).toBeInstanceOf(Error);
  });

  it('comes back by itself after its connections broke', async () => {
    const rung: string[] = [];
    const [before, runId] = [nextRun(), nextRun()];
    await listen([before, runId], async (each) => void rung.push(each));
    await ring(before);
    await eventually(() => expect(rung).toHaveLength(1));
    await backend.disconnectAll();
    // The first rings may fail fast; the reconciler would repeat them like this.
    await eventually(async () => {
      await ring(runId, { doorbell: Date.now() });
      return true;
    });
    await eventually(() => expect(rung).toContain(runId));
  });

  it('holds few connections', async () => {
    await listen([], async () => undefined);
    await Promise.all(Array.from({ length: 20 }, () => ring(nextRun())));
    expect(await backend.connections()).toBeLessThanOrEqual(7);
  });

  describe('whose loop ends without having been asked to', () => {
    afterEach(() => jest.restoreAllMocks());
    const workers = () => jest.spyOn(Worker.prototype, 'run');
    const kinds = (incidents: readonly QueueIncident[]) =>
      incidents.map(({ kind }) => kind).filter((kind) => kind.startsWith('listening'));

    it('takes jobs again: the loop resolved', async () => {
      const runs = workers();
      const incidents: QueueIncident[] = [];
      const rung: string[] = [];
      const [before, after] = [nextRun(), nextRun()];
      const worker = await listen([before, after], async (each) => void rung.push(each), {
        report: (incident) => incidents.push(incident),
      });
      await ring(before);
      await eventually(() => expect(rung).toEqual([before]));
      await runs.mock.contexts[0]?.close();
      await ring(after);
      await eventually(() => expect(rung).toEqual([before, after]));
      expect(kinds(incidents)).toEqual(['listening_ended', 'listening_again']);
      expect(worker.trouble).toBeUndefined();
    });

    it('tells so until it takes jobs again: the loop rejected, again and again', async () => {
      const incidents: QueueIncident[] = [];
      const rung: string[] = [];
      const runId = nextRun();
      workers().mockRejectedValue(new Error('the loop broke'));
      const worker = await listen([runId], async (each) => void rung.push(each), {
        report: (incident) => incidents.push(incident),
      });
      await ring(runId);
      await eventually(() => expect(kinds(incidents).length).toBeGreaterThan(3));
      await eventually(() => expect(worker.trouble).toContain('the loop broke'));
      expect(rung).toEqual([]);
      jest.restoreAllMocks();
      await eventually(() => expect(rung).toEqual([runId]));
      await eventually(() => expect(worker.trouble).toBeUndefined());
    });

    it('answers rings beside those that a broken loop left in work, and waits for them at the end', async () => {
      const run = Worker.prototype.run;
      let breakLoop = () => {};
      workers().mockImplementationOnce(function (this: Worker) {
        const broken = new Promise<void>((_, reject) => {
          breakLoop = () => reject(new Error('the loop broke'));
        });
        return Promise.race([run.call(this), broken]);
      });
      let finish = () => {};
      const working = new Promise<void>((resolve) => {
        finish = resolve;
      });
      let taken = false;
      const ended: string[] = [];
      const [inWork, after] = [nextRun(), nextRun()];
      const worker = await listen(
        [inWork, after],
        async (each, _trace, signal) => {
          taken = true;
          if (each === inWork) await working;
          if (!signal.aborted) ended.push(each);
        },
        { concurrency: 1 },
      );
      await ring(inWork);
      await eventually(() => taken);
      breakLoop();
      await ring(after);
      await eventually(() => expect(ended).toEqual([after]));
      const closed = worker.close().then(() => ended.push('closed'));
      finish();
      await closed;
      expect(ended).toEqual([after, inWork, 'closed']);
    });

    it('begins nothing anew when it was paused or stopped', async () => {
      const runs = workers();
      const incidents: QueueIncident[] = [];
      const rung: string[] = [];
      const runId = nextRun();
      const worker = await listen([runId], async (each) => void rung.push(each), {
        report: (incident) => incidents.push(incident),
      });
      worker.pause();
      await runs.mock.contexts[0]?.close();
      expect(worker.trouble).toBeUndefined();
      worker.resume();
      await ring(runId);
      await eventually(() => expect(rung).toEqual([runId]));
      await worker.close();
      expect(kinds(incidents)).toEqual([]);
      expect(runs).toHaveBeenCalledTimes(2);
    });
  });
}

describe('the doorbell on PostgreSQL', () => {
  suite(async () => {
    const database = await createTestDatabase();
    await prepareQueueSchema(database.url);
    await prepareQueueSchema(database.url);
    const admin = new Client({ connectionString: database.url });
    await admin.connect();
    const others = `from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and usename = current_user`;
    return {
      url: database.url,
      disconnectAll: async () => void (await admin.query(`select pg_terminate_backend(pid) ${others}`)),
      connections: async () => Number((await admin.query(`select count(*) as n ${others}`)).rows[0].n),
      close: async () => {
        await admin.end();
        await database.drop();
      },
    };
  });

  it('refuses a database without its schema', async () => {
    const database = await createTestDatabase();
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query('drop schema if exists bullmq cascade');
    await client.end();
    await expect(createDoorbell(database.url)).rejects.toMatchObject({ code: 'queue_unavailable' });
    await database.drop();
  });
});

describeWithRedis('the doorbell on Redis', () => {
  let redis: TestRedis;
  suite(async () => {
    redis = await startRedis();
    const admin = new Redis(redis.url);
    return {
      url: redis.url,
      disconnectAll: async () => void (await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
      connections: async () =>
        String(await admin.call('CLIENT', 'LIST'))
          .trim()
          .split('\n').length - 1,
      close: async () => {
        admin.disconnect();
        await redis.stop();
      },
    };
  });

  describe('and its server', () => {
    let own: TestRedis;
    beforeEach(async () => {
      own = await startRedis();
    });
    afterEach(async () => {
      await own.stop();
    });

    it('is refused when it evicts keys', async () => {
      const admin = new Redis(own.url);
      await admin.config('SET', 'maxmemory-policy', 'allkeys-lru');
      admin.disconnect();
      await expect(createDoorbell(own.url)).rejects.toMatchObject({
        code: 'config_invalid',
        message: expect.stringContaining('noeviction'),
      });
    });

    it('fails while it is down rather than wait for it, then takes rings again', async () => {
      const bell = await createDoorbell(own.url);
      await own.kill();
      const ring: Ring = { runId: 'r', doorbell: 1, priority: 1, trace: {} };
      await expect(bell.ring(ring)).rejects.toMatchObject({ code: 'queue_unavailable' });
      await own.restart();
      await eventually(async () => {
        await bell.ring(ring);
        return true;
      });
      await bell.close();
    });

    it('may lose everything: running jobs are not aborted, new ones are taken', async () => {
      const bell = await createDoorbell(own.url);
      const rung: string[] = [];
      let finish = () => {};
      const working = new Promise<void>((resolve) => {
        finish = resolve;
      });
      let aborted = false;
      const worker = await createDoorbellWorker(own.url, {
        concurrency: 2,
        onRing: (runId, _trace, signal) => {
          rung.push(runId);
          signal.addEventListener('abort', () => {
            aborted = true;
          });
          return runId === 'long' ? working : Promise.resolve();
        },
      });
      await bell.ring({ runId: 'long', doorbell: 1, priority: 1, trace: {} });
      await eventually(() => expect(rung).toEqual(['long']));
      const admin = new Redis(own.url);
      await admin.flushall();
      admin.disconnect();
      await bell.ring({ runId: 'next', doorbell: 1, priority: 1, trace: {} });
      await eventually(() => expect(rung).toEqual(['long', 'next']));
      expect(aborted).toBe(false);
      finish();
      await worker.close();
      await bell.close();
    });
  });
});

describeWithRedis('the doorbell on a Redis with Sentinels', () => suiteOfGroup(startRedisSentinels));
describeWithRedis('the doorbell on a Redis Cluster', () => suiteOfGroup(startRedisCluster));

function suiteOfGroup(start: () => Promise<RedisGroup>): void {
  let group: RedisGroup;
  suite(async () => {
    group = await start();
    const admins = group.ports.map((port) => new Redis({ port, password: group.password }));
    return {
      url: group.url,
      disconnectAll: () => group.disconnectAll(),
      async connections() {
        const lists = await Promise.all(admins.map((admin) => admin.call('CLIENT', 'LIST', 'TYPE', 'normal')));
        const clients = lists.flatMap((list) => String(list).trim().split('\n'));
        return clients.filter((client) => !client.includes('name=sentinel-')).length - admins.length;
      },
      async close() {
        for (const admin of admins) admin.disconnect();
        await group.stop();
      },
    };
  });

  it.each([
    [
      'took over',
      async (bell: DoorbellConnection, ring: Ring) => {
        await group.killMaster();
        await expect(bell.ring(ring)).rejects.toMatchObject({ code: 'queue_unavailable' });
        await group.takenOver();
      },
    ],
    [
      'took over from a frozen one',
      async () => {
        await group.freezeMaster();
        await group.takenOver();
      },
    ],
    ['a living master handed over to', () => group.handOver()],
  ])('rings at the server that %s, and the worker listens there', async (how, failOver) => {
    const bell = await createDoorbell(group.url);
    const [before, after] = [`before one ${how}`, `after one ${how}`];
    const rung: string[] = [];
    const worker = await createDoorbellWorker(group.url, {
      concurrency: 2,
      onRing: async (runId) => void rung.push(runId),
    });
    await bell.ring({ runId: before, doorbell: 1, priority: 1, trace: {} });
    await eventually(() => expect(rung).toContain(before));
    const ring: Ring = { runId: after, doorbell: 1, priority: 1, trace: {} };
    await failOver(bell, ring);
    await eventually(
      async () => {
        await bell.ring(ring);
        return true;
      },
      { timeoutMs: 30_000 },
    );
    await eventually(() => expect(rung).toContain(after), { timeoutMs: 30_000 });
    await worker.close();
    await bell.close();
    if (how.startsWith('took over')) await group.restore();
  });

  it('takes and gives rings again after all of it was away', async () => {
    const incidents: QueueIncident[] = [];
    const bell = await createDoorbell(group.url);
    const rung: string[] = [];
    const worker = await createDoorbellWorker(group.url, {
      concurrency: 2,
      onRing: async (runId) => void rung.push(runId),
      report: (incident) => incidents.push(incident),
    });
    await group.killAll();
    const ring: Ring = { runId: 'after all', doorbell: 1, priority: 1, trace: {} };
    await expect(bell.ring(ring)).rejects.toMatchObject({ code: 'queue_unavailable' });
    await eventually(() => expect(incidents).not.toEqual([]));
    await group.startAll();
    await eventually(
      async () => {
        await bell.ring(ring);
        return true;
      },
      { timeoutMs: 30_000 },
    );
    await eventually(() => expect(rung).toContain('after all'), { timeoutMs: 30_000 });
    await worker.close();
    await bell.close();
  });

  it('is left while it is away', async () => {
    const bell = await createDoorbell(group.url);
    const worker = await createDoorbellWorker(group.url, { concurrency: 2, onRing: async () => undefined });
    await group.killAll();
    await worker.close();
    await bell.close();
    await group.startAll();
  });

  it('does not tell the password when it refuses one', async () => {
    const wrong = group.url.replaceAll(group.password, 'hunter2');
    const refusal = await createDoorbell(wrong).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refusal).toMatchObject({ code: 'queue_unavailable' });
    expect(inspect(refusal, { depth: null, showHidden: true })).not.toContain('hunter2');
  });

  it('is refused when it evicts keys', async () => {
    const admins = group.ports.map((port) => new Redis({ port, password: group.password }));
    const set = (policy: string) => Promise.all(admins.map((admin) => admin.config('SET', 'maxmemory-policy', policy)));
    try {
      await set('allkeys-lru');
      await expect(createDoorbell(group.url)).rejects.toMatchObject({
        code: 'config_invalid',
        message: expect.stringContaining('noeviction'),
      });
    } finally {
      await set('noeviction');
      for (const admin of admins) admin.disconnect();
    }
  });
}

describeWithRedis('a Sentinel that never answers', () => {
  it('is passed over', async () => {
    const group = await startRedisSentinels();
    const silent = createServer((socket) => void socket.on('error', () => undefined).resume());
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = silent.address() as { port: number };
      const bell = await createDoorbell(group.url.replace('@', `@127.0.0.1:${port},`));
      await bell.ring({ runId: 'r', doorbell: 1, priority: 1, trace: {} });
      await bell.close();
    } finally {
      await group.stop();
      await new Promise((resolve) => silent.close(resolve));
    }
  });
});

describeWithRedis('the address of a Redis', () => {
  it('of one form does not do for a Redis of another', async () => {
    const [sentinels, cluster] = [await startRedisSentinels(), await startRedisCluster()];
    const one = await startRedis();
    try {
      const [sentinel, node] = [sentinels, cluster].map(
        ({ url, password }) => `:${password}@${/(?<=@)[^,/]+/.exec(url)?.[0]}`,
      );
      for (const [url, code, message] of [
        [`redis://${sentinel}`, 'config_invalid', 'redis+sentinel://'],
        [`redis://${node}`, 'config_invalid', 'redis+cluster://'],
        [
          `redis+sentinel://${sentinel}/other?sentinel_password=${sentinels.password}`,
          'queue_unavailable',
          'name of the master',
        ],
        [`redis+sentinel://127.0.0.1:${one.port}/main`, 'queue_unavailable', 'Sentinels'],
        [`redis+cluster://127.0.0.1:${one.port}`, 'queue_unavailable', 'Cluster'],
      ] as const) {
        await expect(createDoorbell(url)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
      }
    } finally {
      await Promise.all([sentinels.stop(), cluster.stop(), one.stop()]);
    }
  });
});
