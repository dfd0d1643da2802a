import { setTimeout as delay } from 'node:timers/promises';
import { createTestDatabase, eventually, freePort, startRedis, type TestProcess } from '@codedock/testkit';
import { apiOf } from '../../api.js';
import { fakeScript } from '../../system.js';
import { endOf, startTraffic } from '../clients/traffic.js';
import { TOOLS } from '../effects/acting-plugin.js';
import { type CaseContext, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { type ActingRun, callsOf, startActing } from '../observing.js';
import { type LinkFault, startTcpProxy, type TcpProxy, throughProxy } from '../tcp-proxy.js';

/** Which pair of services is parted; named after the link between them. */
type Pair = keyof Links;

/** A link between each pair of services that speak with each other; the runner is one of two. */
interface Links {
  readonly gatewayToStore: TcpProxy;
  readonly gatewayToQueue: TcpProxy;
  readonly gatewayToPluginHost: TcpProxy;
  readonly pluginHostToGateway: TcpProxy;
  readonly runnerToStore: TcpProxy;
  readonly runnerToQueue: TcpProxy;
  readonly runnerToPluginHost: TcpProxy;
}

/** What a partition may change for runs. */
interface Expected {
  /** Ends of runs beside `completed`: what could not be asked blocks. */
  readonly ends: readonly RegExp[];
  /** The partition of a runner: one of its calls is in flight meanwhile, and afterwards it has to execute again. */
  readonly runner: boolean;
  /** Codes of refusals of a request that is sent while the gateway is cut off; absent: it may be accepted. */
  readonly refusals?: readonly string[];
}

const GATED = [/^blocked \(gate_(timeout|unavailable)\)$/];
const PAIRS: Readonly<Record<Pair, Expected>> = {
  gatewayToStore: { ends: [], runner: false, refusals: ['store_unavailable'] },
  gatewayToQueue: { ends: [], runner: false },
  gatewayToPluginHost: { ends: [], runner: false, refusals: ['gate_timeout', 'gate_unavailable'] },
  pluginHostToGateway: { ends: [], runner: false },
  runnerToStore: { ends: [], runner: true },
  runnerToQueue: { ends: [], runner: true },
  runnerToPluginHost: { ends: GATED, runner: true },
};
const FAULTS: readonly LinkFault[] = ['drop', 'reject', 'half-open', 'one-way'];
/** Of the short tier: each fault once. */
const FEW: readonly (readonly [Pair, LinkFault])[] = [
  ['runnerToStore', 'one-way'],
  ['runnerToPluginHost', 'drop'],
  ['gatewayToPluginHost', 'half-open'],
  ['gatewayToQueue', 'reject'],
];
/** Of the long tier: each fault of each pair. Two systems side by side, since most of a partition is waiting. */
const EVERY: readonly (readonly (readonly [Pair, LinkFault])[])[] = [true, false].map((ofRunner) =>
  (Object.keys(PAIRS) as Pair[])
    .filter((pair) => PAIRS[pair].runner === ofRunner)
    .flatMap((pair) => FAULTS.map((fault) => [pair, fault] as const)),
);
/** Longer than the suite's lease and than a gate; the long one also than the keepalive between services. */
const PARTED_MS = { short: 4_000, long: 10_000 } as const;
/** Time to be back to service as usual, on a busy machine. */
const PATIENCE_MS = 90_000;

interface Parted {
  readonly system: FaultSystem;
  readonly links: Links;
  /** The runner behind the links. */
  readonly cutOff: TestProcess;
}

/** N1, N2: each pair of services is parted in each way, one after the other. */
export const partitions: FaultCase = {
  id: 'N1',
  title: 'partitions between each pair of services',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const recoveries: number[] = [];
    const problems: string[] = [];
    const lanes = context.pick({ short: [FEW], long: EVERY });
    // A system is started when the one before is there: each is given ports that were free.
    const systems: Parted[] = [];
    for (const _ of lanes) systems.push(await startParted(context));
    await Promise.all(
      systems.map(async (parted, lane) => {
        for (const [pair, fault] of lanes[lane] ?? []) {
          try {
            recoveries.push(await part(context, parted, pair, fault));
          } catch (error) {
            // The others are worth knowing too.
            problems.push(`${pair} ${fault}: ${(error as Error).message}`);
            context.note(problems.at(-1) ?? '');
          } finally {
            parted.links[pair].heal();
            await parted.system.sink.release();
          }
        }
      }),
    );
    if (problems.length > 0) throw new Error(problems.join('\n'));
    return { recoveryMs: Math.max(...recoveries), detail: `${recoveries.length} partitions` };
  },
};

/** Starts a system with a link between each pair, and a second runner that no partition hits. */
async function startParted({ profile, start }: CaseContext): Promise<Parted> {
  const database = await createTestDatabase();
  const redis = profile === 'redis' ? await startRedis({ appendOnly: true }) : undefined;
  const queueUrl = redis?.url ?? database.url;
  const hostPort = await freePort();
  const hostApiPort = await freePort();
  const store = Number(new URL(database.url).port);
  const queue = Number(new URL(queueUrl).port);
  const open = (to: number) => startTcpProxy({ to });
  const links: Links = {
    gatewayToStore: await open(store),
    gatewayToQueue: await open(queue),
    gatewayToPluginHost: await open(hostPort),
    pluginHostToGateway: await open(hostApiPort),
    runnerToStore: await open(store),
    runnerToQueue: await open(queue),
    runnerToPluginHost: await open(hostPort),
  };
  const behind = (toStore: TcpProxy, toQueue: TcpProxy, toPluginHost: TcpProxy) => ({
    DATABASE_URL: throughProxy(database.url, toStore),
    QUEUE_URL: throughProxy(queueUrl, toQueue),
    PLUGIN_HOST_URL: `127.0.0.1:${toPluginHost.port}`,
  });
  const system = await start({
    database,
    ...(redis === undefined ? {} : { redis }),
    gateways: 1,
    runners: 0,
    replaced: false,
    gatewayEnv: {
      ...behind(links.gatewayToStore, links.gatewayToQueue, links.gatewayToPluginHost),
      CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApiPort}`,
    },
    pluginHostEnv: {
      PLUGIN_HOST_LISTEN: `127.0.0.1:${hostPort}`,
      CODEDOCK_HOST_API_URL: `127.0.0.1:${links.pluginHostToGateway.port}`,
    },
    moreRunners: [
      behind(links.runnerToStore, links.runnerToQueue, links.runnerToPluginHost),
      { PLUGIN_HOST_URL: `127.0.0.1:${hostPort}` },
    ],
    ended: async () => {
      await Promise.all(Object.values(links).map((link: TcpProxy) => link.close()));
    },
  });
  const cutOff = system.runners.find(({ name }) => name === 'runner-0');
  if (cutOff === undefined) throw new Error('no runner is behind the links');
  return { system, links, cutOff };
}

/** One partition under traffic. Answers the milliseconds from its healing to service as usual. */
async function part(context: CaseContext, parted: Parted, pair: Pair, fault: LinkFault): Promise<number> {
  const { system, links, cutOff } = parted;
  const { ends, runner, refusals } = PAIRS[pair];
  const sessions = await Promise.all(Array.from({ length: 4 }, () => system.createSession()));
  const probeSession = await system.createSession();
  const held = runner ? await heldOn(parted) : undefined;
  const traffic = startTraffic(system, sessions, (lane) => ({
    content: fakeScript({ toolCalls: [{ name: lane % 2 === 0 ? TOOLS.effectful : TOOLS.idempotent, arguments: {} }] }),
  }));
  try {
    links[pair].cut(fault);
    const healing = delay(context.pick(PARTED_MS));
    let probe = '';
    if (!runner) probe = await probed(system, probeSession, refusals);
    // The other runner goes on with what the parted one held, while that one is parted.
    if (held !== undefined && pair === 'runnerToStore')
      await Promise.race([endOf(system, held.run.id), traffic.failed]);
    await healing;
    const health = await probesOf(system, pair, cutOff);
    links[pair].heal();
    const healed = performance.now();
    await system.sink.release();
    await (runner ? heldOn(parted, false) : usualRun(system));
    const recoveryMs = performance.now() - healed;
    const report = await Promise.race([traffic.stop(), traffic.failed]);
    const heldEnd = held === undefined ? undefined : await endOf(system, held.run.id);
    const seen = [...Object.keys(report.ends), ...(heldEnd === undefined ? [] : [heldEnd])];
    const wrong = seen.filter((end) => end !== 'completed' && !ends.some((allowed) => allowed.test(end)));
    if (wrong.length > 0) throw new Error(`runs ended as ${wrong.join(', ')}`);
    const heldCall = held === undefined ? undefined : (await callsOf(system, held.run.id))[0]?.state;
    context.note(
      `${context.profile}: ${pair} ${fault}: back after ${Math.round(recoveryMs)} ms; meanwhile ${health}${probe}; ${report.runIds.length} runs ${JSON.stringify(report.ends)}, answers beside 201 ${JSON.stringify(report.refusals)}, the longest after ${Math.round(report.longestMs)} ms${held === undefined ? '' : `; the call in flight is ${heldCall}, its run ${heldEnd}`}`,
    );
    return recoveryMs;
  } finally {
    links[pair].heal();
    await traffic.stop().catch(() => undefined);
  }
}

/** A call of the runner behind the links: held by the sink, or let go and awaited to its end. */
async function heldOn({ system, cutOff }: Parted, hold = true): Promise<ActingRun> {
  return eventually(
    async () => {
      if (!hold) {
        const done = await usualRun(system);
        return cutOff.stdout().includes(`executing ${done.call.id} `) && done;
      }
      const acting = await Promise.all([startActing(system, TOOLS.effectful), startActing(system, TOOLS.effectful)]);
      const own = acting.find(({ call }) => system.runnerOf(call.id) === cutOff);
      for (const other of acting.filter((each) => each !== own)) await system.sink.release(other.call.id);
      return own ?? false;
    },
    { timeoutMs: PATIENCE_MS, what: 'the runner behind the links to execute a call' },
  );
}

/** A run whose tool acts, from its acceptance to its end as usual; again where the service is not there yet. */
async function usualRun(system: FaultSystem): Promise<ActingRun> {
  return eventually(
    async () => {
      const run = await system.start({ script: [{ toolCalls: [{ name: TOOLS.idempotent, arguments: {} }] }] });
      const end = await endOf(system, run.id);
      const [call] = await callsOf(system, run.id);
      if (end !== 'completed' || call?.state !== 'succeeded') throw new Error(`it is ${end}, its call ${call?.state}`);
      return { run, call };
    },
    { timeoutMs: PATIENCE_MS, what: 'a run as usual' },
  );
}

/** One request of a client that does not try again. */
async function probed(
  system: FaultSystem,
  sessionId: string,
  refusals: readonly string[] | undefined,
): Promise<string> {
  const began = performance.now();
  const answer = await apiOf(system.url, system.key)<{ code?: string }>(
    'POST',
    `/v1/sessions/${sessionId}/runs`,
    { content: fakeScript({ text: 'probe' }) },
    { signal: AbortSignal.timeout(PATIENCE_MS) },
  );
  const seen = `${answer.status} ${answer.body.code ?? ''}`.trim();
  const right = refusals === undefined ? /^201$/ : new RegExp(`^503 (${refusals.join('|')})$`);
  if (!right.test(seen)) throw new Error(`a request was answered ${seen}; right is ${right}`);
  if (answer.status === 503 && !answer.headers.has('retry-after')) throw new Error(`${seen} without Retry-After`);
  return `, a request was answered ${seen} after ${Math.round(performance.now() - began)} ms`;
}

/** What the probes of the parted process say. */
async function probesOf(system: FaultSystem, pair: Pair, cutOff: TestProcess): Promise<string> {
  const parted = PAIRS[pair].runner
    ? cutOff
    : pair === 'pluginHostToGateway'
      ? system.pluginHosts[0]
      : system.gateways[0];
  const at = parted === undefined ? '' : system.probesAt(parted);
  const [live, ready] = await Promise.all(
    ['healthz', 'readyz'].map((probe) =>
      fetch(`http://${at}/${probe}`, { headers: { connection: 'close' }, signal: AbortSignal.timeout(10_000) }).then(
        ({ status }) => status,
        () => 0,
      ),
    ),
  );
  if (live !== 200) throw new Error(`${parted?.name} answers its liveness probe ${live}`);
  return `ready ${ready}`;
}
