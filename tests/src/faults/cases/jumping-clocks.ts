import { setTimeout as delay } from 'node:timers/promises';
import { eventually, openEventStream, type TestProcess, temporaryFolder, writePlugin } from '@codedock/testkit';
import { apiOf } from '../../api.js';
import { TOOLS } from '../effects/acting-plugin.js';
import { type FakedClock, fakedClock, fakedClockMissing } from '../faked-clock.js';
import { type CaseContext, type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { approveAll, callsOf, leasesRunOut, resumedAfter, startActing } from '../observing.js';

const TEN_MINUTES_S = 600;
const APPROVAL_TTL_S = 3_600;
/** How far off what expires may be, seconds. */
const TOLERANCE_S = 60;
/** Between two jumps: longer than a process may use a time that it has read. */
const JUMP_EVERY_MS = 1_100;
const STREAM_TOKEN_S = 10;

const REMEMBERING = 'remembering';
const REMEMBER = 'remember';
const rememberingSource = `
import { defineTool, serve } from '@codedock/plugin-sdk';

serve({
  name: '${REMEMBERING}',
  version: '1.0.0',
  tools: [
    defineTool({
      name: '${REMEMBER}',
      description: 'Keeps a text.',
      parameters: { type: 'object' },
      effect: 'idempotent',
      execute: async (_, call) => {
        await call.host.memory.upsert(call, 'seen', 'yes', 'session');
        return await call.host.memory.get(call, 'seen', 'session');
      },
    }),
  ],
});`;

/** A system in which one of each service has a clock of its own. */
interface Skewed {
  readonly system: FaultSystem;
  readonly runner: TestProcess;
  readonly gateway: TestProcess;
  readonly clocks: Readonly<{ runner: FakedClock; gateway: FakedClock; host: FakedClock }>;
}

/** O4: one runner, one gateway and the plugin-host are ten minutes off, and their clocks jump while runs are under way. */
export const jumpingClocks: FaultCase = {
  id: 'O4',
  title: 'clocks ten minutes off, and jumping',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const missing = fakedClockMissing();
    if (missing !== undefined) {
      if (process.env['REQUIRE_FAKETIME'] === '1') throw new Error(missing);
      return { detail: `skipped: ${missing}` };
    }
    const folder = await temporaryFolder('codedock-clocks-');
    try {
      return await underJumps(context, await startSkewed(context, folder.path));
    } finally {
      await folder.remove();
    }
  },
};

async function startSkewed(context: CaseContext, folder: string): Promise<Skewed> {
  const clocks = {
    runner: fakedClock(folder, 'runner', TEN_MINUTES_S),
    gateway: fakedClock(folder, 'gateway', -TEN_MINUTES_S),
    host: fakedClock(folder, 'plugin-host', TEN_MINUTES_S),
  };
  const system = await context.start({
    gateways: 1,
    runners: 1,
    env: { APPROVAL_TTL: `${APPROVAL_TTL_S}s` },
    pluginHostEnv: clocks.host.env,
    plugins: async (root) => {
      await writePlugin(root, REMEMBERING, { source: rememberingSource });
    },
  });
  const [runner, gateway] = await Promise.all([
    system.startRunner(clocks.runner.env),
    system.startGateway(clocks.gateway.env),
  ]);
  return { system, runner, gateway, clocks };
}

async function underJumps(context: CaseContext, skewed: Skewed): Promise<CaseReport> {
  const { system, clocks } = skewed;
  const token = await streamToken(system);
  const off: number[] = [];
  for (const ahead of [TEN_MINUTES_S, -TEN_MINUTES_S]) {
    clocks.runner.set(ahead);
    clocks.gateway.set(-ahead);
    clocks.host.set(ahead);
    await delay(JUMP_EVERY_MS);
    off.push(await approvalOfSkewed(skewed));
  }
  await keysAndOrder(system);
  const runs = await jumps(context, skewed, context.pick({ short: 5, long: 60 }));
  const resumeMs = [await takenOver(system, skewed.runner), await takenOver(system, onlyOther(skewed))];
  await token.expires();
  await skewed.gateway.stop();
  return {
    resumeMs,
    detail: `${runs} runs, none taken over while its lease lasted; approvals ${off.map((s) => s.toFixed(1)).join(' and ')} s off, of ${APPROVAL_TTL_S} s`,
  };
}

function onlyOther({ system, runner }: Skewed): TestProcess {
  const other = system.aliveRunners().find((each) => each !== runner);
  if (other === undefined) throw new Error('the runner whose clock is right is gone');
  return other;
}

/**
 * The runner whose clock is off calls a plugin, which calls the host, and leaves a run to a person: the authority holds,
 * and the approval expires when it should. Answers by how many seconds it does not.
 */
async function approvalOfSkewed(skewed: Skewed): Promise<number> {
  const { system } = skewed;
  const other = onlyOther(skewed);
  other.signal('SIGSTOP');
  try {
    const run = await system.start({
      script: [
        { toolCalls: [{ name: REMEMBER, arguments: {} }] },
        { toolCalls: [{ name: TOOLS.approved, arguments: {} }] },
        { text: 'done' },
      ],
      idempotencyKey: crypto.randomUUID(),
    });
    await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval', 60_000);
    const [remembered] = await callsOf(system, run.id);
    if (remembered?.state !== 'succeeded') throw new Error(`a call that calls the host back is ${remembered?.state}`);
    const { rows } = await system.db.query<{ ttl: number }>(
      'SELECT extract(epoch FROM expires_at - created_at)::float8 AS ttl FROM approvals WHERE run_id = $1',
      [run.id],
    );
    const off = Math.abs((rows[0]?.ttl ?? Number.NaN) - APPROVAL_TTL_S);
    if (!(off < TOLERANCE_S)) throw new Error(`an approval expires ${off} s early or late`);
    await approveAll(system, run.id);
    const { status, stopReason } = await system.waitForEnd(run.id, 60_000);
    if (status !== 'completed') throw new Error(`the approved run is ${status} (${stopReason})`);
    return off;
  } finally {
    other.signal('SIGCONT');
  }
}

/** A stream token that the skewed gateway made: good at once on each gateway, and over when its time is. */
async function streamToken(system: FaultSystem): Promise<{ expires(): Promise<void> }> {
  const sessionId = await system.createSession();
  const opened = async (token: string) => {
    const stream = (url: string) => openEventStream(`${url}/v1/sessions/${sessionId}/events?token=${token}`);
    const streams = await Promise.all(system.urls.map(stream));
    for (const each of streams) each.close();
    return streams.map(({ status }) => status);
  };
  const gateway = apiOf(system.urls.at(-1) ?? '', system.key);
  const create = (ttlSeconds: number) =>
    gateway<{ token: string }>('POST', '/v1/stream-tokens', { sessionId, ttlSeconds });
  const long = await create(TOLERANCE_S);
  const statuses = await opened(long.body.token);
  if (statuses.some((status) => status !== 200)) throw new Error(`a fresh stream token is answered with ${statuses}`);
  const short = await create(STREAM_TOKEN_S);
  return {
    expires: async () => {
      await eventually(async () => (await opened(short.body.token)).every((status) => status === 401), {
        timeoutMs: (STREAM_TOKEN_S + TOLERANCE_S) * 1_000,
        intervalMs: 500,
        what: 'a stream token to expire',
      });
    },
  };
}

/** A key that expires in five minutes is good everywhere, and sessions are listed as they were made. */
async function keysAndOrder(system: FaultSystem): Promise<void> {
  const key = await system.createKey({ expiresAt: new Date(Date.now() + 300_000).toISOString() });
  const made: string[] = [];
  for (let round = 0; round < 2; round += 1) {
    for (const url of system.urls) {
      const { status, body } = await apiOf(url, key)<{ id: string }>('POST', '/v1/sessions', {});
      if (status !== 201) throw new Error(`a key that is good for five minutes is answered with ${status}`);
      made.unshift(body.id);
    }
  }
  const { body } = await system.api<{ items: { id: string }[] }>('GET', `/v1/sessions?limit=${made.length}`);
  const listed = body.items.map(({ id }) => id);
  if (listed.join() !== made.join()) throw new Error('sessions are not listed in the order in which they were made');
}

/** Clocks jump forwards and backwards under runs that need their leases renewed: none is taken from its runner. */
async function jumps({ random }: CaseContext, { system, clocks }: Skewed, count: number): Promise<number> {
  let over = false;
  let ended = 0;
  const lanes = Array.from({ length: 4 }, async () => {
    while (!over) {
      const run = await system.start({
        script: [
          { chunks: Array(40).fill('x '), chunkDelayMs: 100 },
          {
            toolCalls: [
              { name: REMEMBER, arguments: {} },
              { name: TOOLS.effectful, arguments: {} },
            ],
          },
          { text: 'done' },
        ].slice(random.integer(0, 1)),
        idempotencyKey: crypto.randomUUID(),
      });
      const { status, stopReason, attempt } = await system.waitForEnd(run.id, 60_000);
      if (status !== 'completed') throw new Error(`run ${run.id} is ${status} (${stopReason})`);
      if (attempt > 1 + leasesRunOut(system, run.id)) throw new Error(`run ${run.id} was claimed ${attempt} times`);
      ended += 1;
    }
  });
  const jumping = async () => {
    for (let jump = 0; jump < count; jump += 1) {
      for (const clock of Object.values(clocks)) clock.set(random.oneOf([-TEN_MINUTES_S, 0, TEN_MINUTES_S]));
      await delay(JUMP_EVERY_MS);
    }
  };
  await Promise.all([
    jumping().finally(() => {
      over = true;
    }),
    ...lanes,
  ]);
  return ended;
}

/** Kills a runner in mid call: its run is taken over once its lease is over by the database's clock, and not before. */
async function takenOver(system: FaultSystem, victim: TestProcess): Promise<number> {
  for (let tries = 0; tries < 20; tries += 1) {
    const { run, call } = await startActing(system, TOOLS.idempotent);
    if (system.runnerOf(call.id) !== victim) {
      await system.sink.release(call.id);
      await system.waitForEnd(run.id, 60_000);
      continue;
    }
    const at = Date.now();
    await victim.kill();
    const { rows } = await system.db.query<{ until: Date; attempt: number }>(
      'SELECT lease_until AS until, lease_token::int AS attempt FROM runs WHERE id = $1',
      [run.id],
    );
    const { resumed } = await eventually(
      async () => {
        const ms = await resumedAfter(system, run.id, at);
        return ms !== undefined && { resumed: ms };
      },
      { timeoutMs: 60_000, what: 'the run to be taken over' },
    );
    const [held] = rows;
    if (held === undefined || at + resumed < held.until.getTime())
      throw new Error(`the run was taken over while its lease lasted, until ${held?.until.toISOString()}`);
    await system.sink.release(call.id);
    await system.waitForEnd(run.id, 60_000);
    return resumed;
  }
  throw new Error(`${victim.name} took none of the runs`);
}
