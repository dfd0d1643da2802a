import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../processes/eventually.js';
import { freePort } from '../processes/free-port.js';
import { temporaryFolder } from '../processes/leftovers.js';
import type { TestProcess } from '../processes/start-process.js';
import { launchRedisServer, redisInfo, runOnRedis } from './redis-server.js';

/** Redis servers of a test of which one takes over when another one dies. Real processes, nothing kept, nothing evicted. */
export interface RedisGroup {
  /** For `QUEUE_URL`. */
  readonly url: string;
  /** Ports of the servers that hold data. */
  readonly ports: readonly number[];
  /** kill -9 of the master that holds CodeDock's keys. */
  killMaster(): Promise<void>;
  /** Resolves when another one takes writes in its place. */
  takenOver(): Promise<void>;
  /** A master that lives on hands over to its replica; resolves when that takes writes and is followed in turn. */
  handOver(): Promise<void>;
  /** Starts the killed one again, empty; resolves when it follows the one that took over and may take over itself. */
  restore(): Promise<void>;
  stop(): Promise<void>;
}

/** How long a master has to be silent before another one takes over, milliseconds. */
const SILENCE_MS = 3_000;
const MASTER = 'codedock';
const SETTINGS = [
  '--save',
  '',
  '--appendonly',
  'no',
  '--maxmemory-policy',
  'noeviction',
  '--repl-diskless-sync-delay',
  '0',
];
const SLOTS = 16_384;
/** As `REDIS_PREFIX` of the queue: all its keys are in the slot of these braces. */
const KEYS = '{codedock}';

/** Servers with folders of their own, which may be killed and started again. */
async function servers() {
  const folder = await temporaryFolder('codedock-redis-');
  const running = new Map<number, TestProcess>();
  return {
    folder: folder.path,
    async launch(port: number, options: { file?: string; settings?: readonly string[]; ready?: RegExp } = {}) {
      const own = path.join(folder.path, String(port));
      await mkdir(own, { recursive: true });
      running.set(port, await launchRedisServer({ port, folder: own, ...options }));
    },
    async kill(port: number) {
      await running.get(port)?.kill();
    },
    async stop() {
      await Promise.all([...running.values()].map((each) => each.stop()));
      await folder.remove();
    },
  };
}

/** One master, one replica, three Sentinels. */
export async function startRedisSentinels(): Promise<RedisGroup> {
  const { folder, launch, kill, stop } = await servers();
  let [master, replica] = [await freePort(), await freePort()];
  const sentinels = [await freePort(), await freePort(), await freePort()] as const;
  const ports = [master, replica];
  const following = (of: number) => [...SETTINGS, '--replicaof', `127.0.0.1 ${of}`];
  /** The group may fail over: every Sentinel knows the others and a replica that is well. */
  const whole = () =>
    eventually(
      async () => {
        for (const port of sentinels) {
          const [host, at] = (await runOnRedis(port, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER)) as string[];
          if (host !== '127.0.0.1' || Number(at) !== master) throw new Error(`its master is ${at}, not ${master}`);
          await runOnRedis(port, 'SENTINEL', 'CKQUORUM', MASTER);
          const others = (await runOnRedis(port, 'SENTINEL', 'SENTINELS', MASTER)) as unknown[];
          const replicas = (await runOnRedis(port, 'SENTINEL', 'REPLICAS', MASTER)) as unknown[];
          if (others.length !== 2 || replicas.length !== 1) throw new Error('it does not know them all');
          const about = fields(replicas[0]);
          if (about['flags'] !== 'slave' || about['master-link-status'] !== 'ok')
            throw new Error(`its replica is ${about['flags']}, its link ${about['master-link-status']}`);
        }
      },
      { timeoutMs: 60_000, what: 'the Sentinels to know each other and a replica' },
    );
  try {
    await launch(master, { settings: SETTINGS });
    await launch(replica, { settings: following(master) });
    for (const port of sentinels) {
      const file = path.join(folder, `sentinel-${port}.conf`);
      const lines = [
        `sentinel monitor ${MASTER} 127.0.0.1 ${master} 2`,
        `sentinel down-after-milliseconds ${MASTER} ${SILENCE_MS}`,
        `sentinel failover-timeout ${MASTER} 5000`,
      ];
      await writeFile(file, `${lines.join('\n')}\n`);
      await launch(port, { file, settings: ['--sentinel'], ready: /\+monitor master/ });
    }
    await whole();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: `redis+sentinel://${sentinels.map((port) => `127.0.0.1:${port}`).join(',')}/${MASTER}`,
    ports,
    killMaster: () => kill(master),
    async takenOver() {
      await untilMaster(replica);
      [master, replica] = [replica, master];
    },
    async handOver() {
      await runOnRedis(sentinels[0], 'SENTINEL', 'FAILOVER', MASTER);
      await untilMaster(replica);
      [master, replica] = [replica, master];
      await whole();
    },
    async restore() {
      await launch(replica, { settings: following(master) });
      await whole();
    },
    stop,
  };
}

/** Three masters with a third of the slots each, and a replica of the one that holds CodeDock's keys. */
export async function startRedisCluster(): Promise<RedisGroup> {
  const { launch, kill, stop } = await servers();
  const ports = [await freePort(), await freePort(), await freePort(), await freePort()];
  const buses = new Map<number, number>();
  for (const port of ports) buses.set(port, await freePort());
  const start = (port: number) =>
    launch(port, {
      settings: [
        ...SETTINGS,
        ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'],
        ...['--cluster-node-timeout', String(SILENCE_MS), '--cluster-replica-validity-factor', '0'],
        ...['--cluster-port', String(buses.get(port))],
      ],
    });
  const idOf = async (port: number) => String(await runOnRedis(port, 'CLUSTER', 'MYID'));
  const inOrder = (port: number) =>
    eventually(
      async () => {
        const text = String(await runOnRedis(port, 'CLUSTER', 'INFO'));
        if (!/cluster_state:ok/.test(text)) throw new Error(text);
      },
      { timeoutMs: 60_000, what: 'the Cluster to be in order' },
    );
  /** The replica has what its master has, and every node knows that it is one. */
  const follows = (port: number, of: number) =>
    eventually(
      async () => {
        if ((await redisInfo(port, 'master_link_status')) !== 'up') throw new Error('its link is not up');
        const id = await idOf(of);
        for (const each of ports) {
          const nodes = String(await runOnRedis(each, 'CLUSTER', 'NODES')).split('\n');
          const line = nodes.find((node) => node.includes(`:${port}@`)) ?? '';
          if (!new RegExp(`slave ${id} `).test(line) || /fail/.test(line)) throw new Error(`to ${each} it is ${line}`);
        }
      },
      { timeoutMs: 60_000, what: 'a replica of the Cluster' },
    );
  const [first, second, third, fourth] = ports as [number, number, number, number];
  const masters = [first, second, third];
  let master = first;
  let replica = fourth;
  try {
    await Promise.all(ports.map(start));
    const slot = Number(await runOnRedis(first, 'CLUSTER', 'KEYSLOT', KEYS));
    const share = Math.ceil(SLOTS / masters.length);
    for (const [index, port] of masters.entries()) {
      const last = Math.min((index + 1) * share, SLOTS) - 1;
      if (slot >= index * share && slot <= last) master = port;
      await runOnRedis(port, 'CLUSTER', 'ADDSLOTSRANGE', String(index * share), String(last));
      await runOnRedis(port, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
    }
    for (const port of [second, third, fourth]) {
      await runOnRedis(first, 'CLUSTER', 'MEET', '127.0.0.1', String(port), String(buses.get(port)));
    }
    await Promise.all(ports.map(inOrder));
    await eventually(async () => runOnRedis(replica, 'CLUSTER', 'REPLICATE', await idOf(master)));
    await follows(replica, master);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: `redis+cluster://${masters.map((port) => `127.0.0.1:${port}`).join(',')}`,
    ports,
    killMaster: () => kill(master),
    async takenOver() {
      await untilMaster(replica);
      await Promise.all(ports.filter((port) => port !== master).map(inOrder));
      [master, replica] = [replica, master];
    },
    async handOver() {
      await runOnRedis(replica, 'CLUSTER', 'FAILOVER');
      await untilMaster(replica);
      [master, replica] = [replica, master];
      await follows(replica, master);
    },
    async restore() {
      // Its node file tells it who has its slots now, and it follows that one.
      await start(replica);
      await follows(replica, master);
    },
    stop,
  };
}

async function untilMaster(port: number): Promise<void> {
  await eventually(
    async () => {
      const role = await redisInfo(port, 'role');
      if (role !== 'master') throw new Error(`it is ${role}`);
    },
    { timeoutMs: 60_000, what: 'the replica to take over' },
  );
}

/** A flat list of names and values. */
function fields(list: unknown): Readonly<Record<string, string>> {
  const flat = list as readonly string[];
  return Object.fromEntries(flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1] ?? '']] : [])));
}
