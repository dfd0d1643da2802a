import type { LedgerEvent, LiveBus, SessionPush } from '@codedock/domain';
import {
  createTestDatabase,
  describeWithRedis,
  eventually,
  type RedisGroup,
  startRedis,
  startRedisCluster,
  startRedisSentinels,
} from '@codedock/testkit';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { createLiveBus } from './create-live-bus.js';

interface Backend {
  readonly queueUrl: string;
  readonly directUrl: string;
  disconnectAll(): Promise<void>;
  close(): Promise<void>;
}

const event = (seq: number, text = 'x') =>
  ({ seq, type: 'assistant.delta', payload: { text } }) as unknown as LedgerEvent;

function suite(open: () => Promise<Backend>): void {
  let backend: Backend;
  let runner: LiveBus;
  let gateway: LiveBus;

  beforeAll(async () => {
    backend = await open();
    runner = await createLiveBus(backend);
    gateway = await createLiveBus(backend);
  });
  afterAll(async () => {
    await Promise.all([runner?.close(), gateway?.close()]);
    await backend?.close();
  });

  const reader = async (sessionId: string) => {
    const pushes: SessionPush[] = [];
    const end = await gateway.subscribe(sessionId, (push) => void pushes.push(push));
    return { pushes, end };
  };

  it('brings a session its own pushes, with small events', async () => {
    const mine = await reader('mine');
    const other = await reader('other');
    runner.publish({ sessionId: 'mine', lastSeq: 1, events: [event(1)] });
    await eventually(() => expect(mine.pushes).toEqual([{ sessionId: 'mine', lastSeq: 1, events: [event(1)] }]));
    expect(other.pushes).toEqual([]);
    mine.end();
    other.end();
  });

  it('leaves out events that are too large, never the seq', async () => {
    const { pushes, end } = await reader('large');
    runner.publish({ sessionId: 'large', lastSeq: 1, events: [event(1, 'é'.repeat(100_000))] });
    await eventually(() => expect(pushes).toEqual([{ sessionId: 'large', lastSeq: 1 }]));
    end();
  });

  it('coalesces a burst without losing its end', async () => {
    const { pushes, end } = await reader('burst');
    for (let seq = 1; seq <= 200; seq += 1) runner.publish({ sessionId: 'burst', lastSeq: seq, events: [event(seq)] });
    await eventually(() => expect(pushes.at(-1)?.lastSeq).toBe(200));
    expect(pushes.length).toBeLessThan(200);
    end();
  });

  it('tells all readers of a session until each has ended', async () => {
    const first = await reader('shared');
    const second = await reader('shared');
    first.end();
    runner.publish({ sessionId: 'shared', lastSeq: 1 });
    await eventually(() => expect(second.pushes).toHaveLength(1));
    expect(first.pushes).toHaveLength(0);
    second.end();
  });

  it('carries cancels to everyone who listens', async () => {
    const cancelled: string[] = [];
    const end = await runner.subscribeCancels(({ runId }) => void cancelled.push(runId));
    gateway.publishCancel({ runId: 'r1' });
    await eventually(() => expect(cancelled).toEqual(['r1']));
    end();
  });

  it('comes back after a lost connection, says so, and has its subscriptions', async () => {
    const { pushes, end } = await reader('lost');
    let reconnected = 0;
    const stop = gateway.onReconnected(() => {
      reconnected += 1;
    });
    await backend.disconnectAll();
    await eventually(() => expect(reconnected).toBe(1));
    let seq = 0;
    await eventually(() => {
      seq += 1;
      runner.publish({ sessionId: 'lost', lastSeq: seq });
      return pushes.length > 0;
    });
    stop();
    end();
  });

  it('never throws into a publisher, even after it was closed', async () => {
    const closing = await createLiveBus(backend);
    await closing.close();
    await closing.close();
    expect(() => closing.publish({ sessionId: 's', lastSeq: 1 })).not.toThrow();
    expect(() => closing.publishCancel({ runId: 'r' })).not.toThrow();
  });
}

describe('the live bus on LISTEN/NOTIFY', () => {
  suite(async () => {
    const database = await createTestDatabase();
    const admin = new Client({ connectionString: database.url });
    await admin.connect();
    return {
      queueUrl: database.url,
      directUrl: database.url,
      disconnectAll: async () => {
        await admin.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'codedock-bus-%' and datname = current_database()",
        );
      },
      close: async () => {
        await admin.end();
        await database.drop();
      },
    };
  });

  it('names the variable when it cannot be reached', async () => {
    const nowhere = 'postgres://127.0.0.1:1/none';
    await expect(createLiveBus({ queueUrl: nowhere, directUrl: nowhere })).rejects.toMatchObject({
      code: 'queue_unavailable',
      message: expect.stringContaining('DATABASE_DIRECT_URL'),
    });
  });
});

describeWithRedis('the live bus on Redis', () => {
  suite(async () => {
    const redis = await startRedis();
    const admin = new Redis(redis.url);
    return {
      queueUrl: redis.url,
      directUrl: 'postgres://unused',
      disconnectAll: async () => {
        await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
        await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      },
      close: async () => {
        admin.disconnect();
        await redis.stop();
      },
    };
  });

  it('tells that its user may not publish', async () => {
    const redis = await startRedis();
    const errors: string[] = [];
    try {
      await redis.run('ACL', 'SETUSER', 'listener', 'on', '>password', '~*', '&*', '+@all', '-publish');
      const url = new URL(redis.url);
      url.username = 'listener';
      url.password = 'password';
      const bus = await createLiveBus({
        queueUrl: url.href,
        directUrl: 'postgres://unused',
        report: (incident) => void (incident.kind === 'bus_error' && errors.push(incident.error.message)),
      });
      bus.publish({ sessionId: 's', lastSeq: 1 });
      await eventually(() => expect(errors).toEqual([expect.stringContaining('NOPERM')]));
      await bus.close();
    } finally {
      await redis.stop();
    }
  });
});

describeWithRedis('the live bus on a Redis with Sentinels', () => suiteOfGroup(startRedisSentinels));
describeWithRedis('the live bus on a Redis Cluster', () => suiteOfGroup(startRedisCluster));

function suiteOfGroup(start: () => Promise<RedisGroup>): void {
  let group: RedisGroup;
  suite(async () => {
    group = await start();
    return {
      queueUrl: group.url,
      directUrl: 'postgres://unused',
      disconnectAll: () => group.disconnectAll(),
      close: () => group.stop(),
    };
  });

  it.each([
    ['was killed', () => group.killMaster()],
    ['does not answer', () => group.freezeMaster()],
  ])(
    'goes on elsewhere when the master %s, and tells readers that they may have missed something',
    async (_how, harm) => {
      const options = { queueUrl: group.url, directUrl: 'postgres://unused' };
      const listeners = await Promise.all(Array.from({ length: 3 }, () => createLiveBus(options)));
      const speaker = await createLiveBus(options);
      const heard = listeners.map(() => 0);
      const missed = listeners.map(() => 0);
      for (const [index, listener] of listeners.entries()) {
        listener.onReconnected(() => {
          missed[index] = (missed[index] ?? 0) + 1;
        });
        await listener.subscribe('s', ({ lastSeq }) => {
          heard[index] = lastSeq;
        });
      }
      const told = (lastSeq: number) =>
        eventually(
          () => {
            speaker.publish({ sessionId: 's', lastSeq });
            expect(heard).toEqual(listeners.map(() => lastSeq));
          },
          { timeoutMs: 30_000, intervalMs: 100 },
        );
      await told(1);
      await harm();
      await group.takenOver();
      await told(2);
      expect(missed.every((times) => times > 0)).toBe(true);
      await Promise.all([...listeners, speaker].map((each) => each.close()));
      await group.restore();
    },
  );
}
