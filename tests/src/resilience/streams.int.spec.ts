import {
  describeWithRedis,
  eventually,
  expectNoLeftovers,
  type StreamFrame,
  startRedis,
  type TestRedis,
} from '@codedock/testkit';
import { describeOnEachProfile } from '../profiles.js';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

const LEASE = { CODEDOCK_LEASE_TTL: '2s', CODEDOCK_LEASE_HEARTBEAT: '400ms' };
const CLIENTS = 8;

/** What one client has seen, over all its connections, in order. */
interface Follower {
  readonly ids: number[];
  connections: number;
}

/** Pseudo-random numbers in [0, 1) that are the same in every run of the test. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Follows a run over ever new connections, each cut after a random number of frames, until the run's end. */
async function follow(system: System, runId: string, seed: number, deadline: number): Promise<Follower> {
  const random = numbers(seed);
  const follower: Follower = { ids: [], connections: 0 };
  while (performance.now() < deadline) {
    const last = follower.ids.at(-1);
    const byHeader = random() < 0.5;
    const url = system.urls[Math.floor(random() * system.urls.length)] as string;
    const stream = await system.stream(
      `/v1/runs/${runId}/events${last !== undefined && !byHeader ? `?after=${last}` : ''}`,
      { url, ...(last !== undefined && byHeader ? { lastEventId: String(last) } : {}) },
    );
    follower.connections += 1;
    if (stream.status === 204) return follower;
    expect(stream.status).toBe(200);
    const enough = 1 + Math.floor(random() * 12);
    let ended = false;
    const over = stream.over.then(() => {
      ended = true;
    });
    await eventually(() => ended || stream.frames.length >= enough, { timeoutMs: 120_000, what: 'frames' });
    stream.close();
    await over;
    // What arrived before the cut counts; the next connection goes on after it.
    follower.ids.push(...stream.frames.map(({ id }: StreamFrame) => Number(id)));
    if (stream.frames.some(({ event }) => event === 'run.completed')) return follower;
  }
  throw new Error(`the stream did not end; seen ${follower.ids.join(' ')}`);
}

const longReply = (pieces: number) =>
  fakeScript({ chunks: Array.from({ length: pieces }, (_, n) => `${n} `), chunkDelayMs: 100 });

describeOnEachProfile('event streams of two gateways while runners die', (profile) => {
  let system: System;
  beforeAll(async () => {
    system = await startSystem({ profile, gateways: 2, env: LEASE });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  it('clients that reconnect at random points see 1..n once each', async () => {
    const run = await system.startRun(await system.createSession(), { content: longReply(60) });
    const deadline = performance.now() + 170_000;
    const followers = Array.from({ length: CLIENTS }, (_, n) => follow(system, run.id, n + 1, deadline));
    await eventually(async () => (await system.events(run.sessionId)).length > 12, {
      what: 'the reply to be half there',
    });
    // The only runner there is holds the lease.
    for (const victim of [0, 1]) {
      await system.runners[victim]?.kill();
      await system.startRunner();
      await eventually(
        async () => {
          const events = await system.events(run.sessionId);
          const attempt = Math.max(...events.map(({ attempt: made = 0 }) => made));
          expect(attempt).toBe(victim + 2);
          expect(
            events.filter(({ type, attempt: made }) => type === 'assistant.delta' && made === attempt).length,
          ).toBeGreaterThan(4);
        },
        { timeoutMs: 45_000, what: 'the next runner to be in mid-reply' },
      );
    }
    expect((await system.waitForEnd(run.id, 60_000)).status).toBe('completed');
    const seen = await Promise.all(followers);
    const stored = (await system.events(run.sessionId)).map(({ seq }) => seq);
    expect(stored).toEqual(stored.map((_, index) => index + 1));
    for (const { ids } of seen) expect(ids).toEqual(stored);
    expect(seen.reduce((sum, { connections }) => sum + connections, 0)).toBeGreaterThan(CLIENTS * 2);
    expect((await system.events(run.sessionId)).filter(({ type }) => type === 'turn.restarted')).toHaveLength(2);
  }, 180_000);
});

describeWithRedis('a runner dies between commit and publish', () => {
  let redis: TestRedis;
  let system: System;
  beforeAll(async () => {
    redis = await startRedis();
    system = await startSystem({ profile: 'redis', redisUrl: redis.url, env: LEASE });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await redis?.stop();
    await expectNoLeftovers();
  });

  const published = async () =>
    Number(/cmdstat_publish:calls=(\d+)/.exec(String(await redis.run('INFO', 'commandstats')))?.[1] ?? 0);

  it('a client that stays connected sees 1..n once each', async () => {
    const run = await system.startRun(await system.createSession(), { content: longReply(60) });
    const stream = await system.stream(`/v1/sessions/${run.sessionId}/events`);
    await stream.waitFor(({ event }) => event === 'assistant.delta');
    // A paused Redis takes connections but no PUBLISH: what the runner commits from here on is never pushed.
    await redis.run('CLIENT', 'PAUSE', '60000', 'WRITE');
    const before = await published();
    const committed = (await system.events(run.sessionId)).length;
    await eventually(async () => (await system.events(run.sessionId)).length >= committed + 3, {
      what: 'commits without a push',
    });
    await system.runners[0]?.kill();
    const last = (await system.events(run.sessionId)).length;
    await redis.run('CLIENT', 'UNPAUSE');
    expect(await published()).toBe(before);
    await stream.waitFor(({ id }) => id === String(last));
    await system.startRunner();
    expect((await system.waitForEnd(run.id, 60_000)).status).toBe('completed');
    const stored = await system.events(run.sessionId);
    await stream.waitFor(({ id }) => id === String(stored.length));
    stream.close();
    await stream.over;
    expect(stream.frames.map(({ id }) => Number(id))).toEqual(stored.map((_, index) => index + 1));
  }, 120_000);
});
