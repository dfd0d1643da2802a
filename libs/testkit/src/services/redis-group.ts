import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../processes/eventually.js';
import { freePort } from '../processes/free-port.js';
import { temporaryFolder } from '../processes/leftovers.js';
import type { TestProcess } from '../processes/start-process.js';
import { launchRedisServer, redisInfo, runOnRedis } from './redis-server.js';

/** Redis servers of a test of which one takes over when another one dies. Real processes, nothing kept, nothing evicted. */
export interface RedisGroup {
  /** For `QUEUE_URL`, with the password. */
  readonly url: string;
  /** Of all servers, Sentinels included. */
  readonly password: string;
  /** Ports of the servers that hold data. */
  readonly ports: readonly number[];
  /** kill -9 of the master that holds CodeDock's keys. */
  killMaster(): Promise<void>;
  /** SIGSTOP of it: connections stay, and nothing is answered. */
  freezeMaster(): Promise<void>;
  /** Resolves when another one takes writes in its place. */
  takenOver(): Promise<void>;
  /** A master that lives on hands over to its replica; resolves when that takes writes and is followed in turn. */
  handOver(): Promise<void>;
  /** Starts the killed or frozen one anew, empty; resolves when it follows the one that took over and may do so itself. */
  restore(): Promise<void>;
  /** Breaks every client's connection to the servers that hold data; they stay. */
  disconnectAll(): Promise<void>;
  /** kill -9 of all of them. */
  killAll(): Promise<void>;
  /** Starts all again that were killed, empty; resolves when they are a group. */
  startAll(): Promise<void>;
  stop(): Promise<void>;
}

/** How long a master has to be silent before another one takes over, milliseconds. */
const SILENCE_MS = 3_000;
const MASTER = 'codedock';
const SLOTS = 16_384;
/** As `REDIS_PREFIX` of the queue: all its keys are in the slot of these braces. */
const KEYS = '{codedock}';

/** Servers with one password and folders of their own, which may be killed and started again. */
async function servers() {
  const folder = await temporaryFolder('codedock-redis-');
  const password = randomBytes(16).toString('hex');
  const running = new Map<number, TestProcess>();
  const end = async (port: number) => {
    await running.get(port)?.kill();
    running.delete(port);
  };
  return {
    folder: folder.path,
    password,
    /** A server of data; `more` as on the command line. */
    async launch(port: number, ...more: readonly string[]) {
      await end(port);
      const own = path.join(folder.path, String(port));
      await mkdir(own, { recursive: true });
      const settings = [
        ...['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction', '--repl-diskless-sync-delay', '0'],
        ...['--requirepass', password, '--masterauth', password, ...more],
      ];
      running.set(port, await launchRedisServer({ port, folder: own, settings }));
    },
    async watch(port: number, file: string) {
      await end(port);
      const settings = ['--sentinel'];
      running.set(
        port,
        await launchRedisServer({ port, folder: folder.path, file, settings, ready: /\+monitor master/ }),
      );
    },
    end,
    freeze: (port: number) => running.get(port)?.signal('SIGSTOP'),
    run: (port: number, command: string, ...args: readonly string[]) =>
      runOnRedis({ port, password }, command, ...args),
    async disconnect(ports: readonly number[]) {
      for (const port of ports) {
        for (const type of ['pubsub', 'normal'])
          await runOnRedis({ port, password }, 'CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes');
      }
    },
    info: (port: number, field: string) => redisInfo({ port, password }, field),
    async stop() {
      try {
        for (const port of running.keys()) await end(port);
      } finally {
        await folder.remove();
      }
    },
  };
}

type Servers = Awaited<ReturnType<typeof servers>>;

/** One master, one replica, three Sentinels. */
export async function startRedisSentinels(): Promise<RedisGroup> {
  const own = await servers();
  const { folder, password, run } = own;
  let [master, replica] = [await freePort(), await freePort()];
  const sentinels = [await freePort(), await freePort(), await freePort()] as const;
  const ports = [master, replica];
  /** The group may fail over: every Sentinel knows the others and a replica that is well. */
  const whole = () =>
    eventually(
      async () => {
        for (const port of sentinels) {
          const [host, at] = (await run(port, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER)) as string[];
          if (host !== '127.0.0.1' || Number(at) !== master) throw new Error(`its master is ${at}, not ${master}`);
          await run(port, 'SENTINEL', 'CKQUORUM', MASTER);
          const others = (await run(port, 'SENTINEL', 'SENTINELS', MASTER)) as unknown[];
          const replicas = (await run(port, 'SENTINEL', 'REPLICAS', MASTER)) as unknown[];
          if (others.length !== 2 || replicas.length !== 1) throw new Error('it does not know them all');
          const about = fields(replicas[0]);
          if (about['flags'] !== 'slave' || about['master-link-status'] !== 'ok')
            throw new Error(`its replica is ${about['flags']}, its link ${about['master-link-status']}`);
        }
      },
      { timeoutMs: 60_000, what: 'the Sentinels to know each other and a replica' },
    );
  const follow = () => own.launch(replica, '--replicaof', `127.0.0.1 ${master}`);
  const takeOver = async () => {
    await untilMaster(own, replica);
    [master, replica] = [replica, master];
  };
  const startAll = async () => {
    await own.launch(master);
    await follow();
    for (const port of sentinels) {
      const file = path.join(folder, `sentinel-${port}.conf`);
      const lines = [
        `requirepass ${password}`,
        `sentinel sentinel-pass ${password}`,
        `sentinel monitor ${MASTER} 127.0.0.1 ${master} 2`,
        `sentinel auth-pass ${MASTER} ${password}`,
        `sentinel down-after-milliseconds ${MASTER} ${SILENCE_MS}`,
        `sentinel failover-timeout ${MASTER} 5000`,
      ];
      await writeFile(file, `${lines.join('\n')}\n`);
      await own.watch(port, file);
    }
    await whole();
  };
  await startAll().catch(async (error: unknown) => {
    await own.stop();
    throw error;
  });
  const hosts = sentinels.map((port) => `127.0.0.1:${port}`).join(',');
  return {
    url: `redis+sentinel://:${password}@${hosts}/${MASTER}?sentinel_password=${password}`,
    password,
    ports,
    killMaster: () => own.end(master),
    freezeMaster: async () => own.freeze(master),
    takenOver: takeOver,
    async handOver() {
      await run(sentinels[0], 'SENTINEL', 'FAILOVER', MASTER);
      await takeOver();
      await whole();
    },
    async restore() {
      await follow();
      await whole();
    },
    disconnectAll: () => own.disconnect(ports),
    async killAll() {
      for (const port of [...sentinels, ...ports]) await own.end(port);
    },
    startAll,
    stop: own.stop,
  };
}

/** Three masters with a third of the slots each, and a replica of the one that holds CodeDock's keys. */
export async function startRedisCluster(): Promise<RedisGroup> {
  const own = await servers();
  const { password, run } = own;
  const ports = [await freePort(), await freePort(), await freePort(), await freePort()] as const;
  const buses = new Map<number, number>();
  for (const port of ports) buses.set(port, await freePort());
  const start = (port: number) =>
    own.launch(
      port,
      ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'],
      ...['--cluster-node-timeout', String(SILENCE_MS), '--cluster-replica-validity-factor', '0'],
      ...['--cluster-port', String(buses.get(port))],
    );
  const inOrder = async (of: readonly number[]) => {
    for (const port of of)
      await eventually(
        async () => {
          const text = String(await run(port, 'CLUSTER', 'INFO'));
          if (!/cluster_state:ok/.test(text)) throw new Error(text);
        },
        { timeoutMs: 60_000, what: 'the Cluster to be in order' },
      );
  };
  /** The replica has what its master has, and every node knows that it is one. */
  const follows = () =>
    eventually(
      async () => {
        if ((await own.info(replica, 'master_link_status')) !== 'up') throw new Error('its link is not up');
        const id = String(await run(master, 'CLUSTER', 'MYID'));
        for (const each of ports) {
          const nodes = String(await run(each, 'CLUSTER', 'NODES')).split('\n');
          const line = nodes.find((node) => node.includes(`:${replica}@`)) ?? '';
          if (!new RegExp(`slave ${id} `).test(line) || /fail/.test(line)) throw new Error(`to ${each} it is ${line}`);
        }
      },
      { timeoutMs: 60_000, what: 'a replica of the Cluster' },
    );
  const takeOver = async () => {
    await untilMaster(own, replica);
    [master, replica] = [replica, master];
  };
  const [first, second, third, fourth] = ports;
  const masters = [first, second, third];
  let master: number = first;
  let replica: number = fourth;
  const found = async () => {
    for (const port of ports) await start(port);
    const slot = Number(await run(first, 'CLUSTER', 'KEYSLOT', KEYS));
    const share = Math.ceil(SLOTS / masters.length);
    for (const [index, port] of masters.entries()) {
      const last = Math.min((index + 1) * share, SLOTS) - 1;
      if (slot >= index * share && slot <= last) master = port;
      await run(port, 'CLUSTER', 'ADDSLOTSRANGE', String(index * share), String(last));
      await run(port, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
    }
    for (const port of [second, third, fourth])
      await run(first, 'CLUSTER', 'MEET', '127.0.0.1', String(port), String(buses.get(port)));
    await inOrder(ports);
    await eventually(async () => run(replica, 'CLUSTER', 'REPLICATE', String(await run(master, 'CLUSTER', 'MYID'))));
    await follows();
  };
  await found().catch(async (error: unknown) => {
    await own.stop();
    throw error;
  });
  return {
    url: `redis+cluster://:${password}@${masters.map((port) => `127.0.0.1:${port}`).join(',')}`,
    password,
    ports,
    killMaster: () => own.end(master),
    freezeMaster: async () => own.freeze(master),
    async takenOver() {
      await takeOver();
      await inOrder(ports.filter((port) => port !== replica));
    },
    async handOver() {
      await run(replica, 'CLUSTER', 'FAILOVER');
      await takeOver();
      await follows();
    },
    async restore() {
      // Its node file tells it who has its slots now, and it follows that one.
      await start(replica);
      await follows();
    },
    disconnectAll: () => own.disconnect(ports),
    async killAll() {
      for (const port of ports) await own.end(port);
    },
    async startAll() {
      for (const port of ports) await start(port);
      await inOrder(ports);
      await follows();
    },
    stop: own.stop,
  };
}

async function untilMaster({ info }: Servers, port: number): Promise<void> {
  await eventually(
    async () => {
      const role = await info(port, 'role');
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
