import { eventually, type PostgresEnd, startPostgresPair } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { type CaseReport, EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { expectAlive, expectGatewaysReady } from '../health.js';
import { expectAnswered, type LoadReport, recovered, startLoad } from '../load.js';
import { startActing } from '../observing.js';
import { startTcpProxy, throughProxy } from '../tcp-proxy.js';

const ENDS: readonly PostgresEnd[] = ['fast', 'immediate', 'kill'];

/** A way for the database to be gone, and to be there again. */
interface Outage {
  readonly name: string;
  readonly end: () => Promise<void>;
  /** Resolves when it takes connections. */
  readonly back: () => Promise<void>;
}

/** D5: the database server is stopped, stopped at once, or killed, and started again; clients and calls go on meanwhile. */
export const restartedPostgres: FaultCase = {
  id: 'D5',
  title: 'PostgreSQL stopped (fast, immediate, kill -9) and started again under load',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const { postgres } = system;
    if (postgres === undefined) throw new Error('the system has no PostgreSQL of its own');
    const outages = ENDS.map((how) => ({ name: how, end: () => postgres.end(how), back: () => postgres.restart() }));
    return underLoad(system, {
      clients: context.pick({ short: 4, long: 16 }),
      outages,
      rounds: context.pick({ short: 1, long: 7 }),
    });
  },
};

/**
 * D9: the database server is killed for good, and its synchronous standby takes over behind the same address; clients and
 * calls go on meanwhile.
 */
export const failedOverPostgres: FaultCase = {
  id: 'D9',
  title: 'PostgreSQL fails over to its synchronous standby under load',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const pair = await startPostgresPair();
    const address = await startTcpProxy({ to: pair.port() });
    const ended = async () => {
      await address.close();
      await pair.stop();
    };
    const database = { ...pair.database, url: throughProxy(pair.database.url, address) };
    const system = await context.start({ database, ended });
    const outage: Outage = {
      name: 'kill',
      end: () => pair.killPrimary(),
      async back() {
        await pair.promote();
        address.moveTo(pair.port());
      },
    };
    const rounds = context.pick({ short: 1, long: 5 });
    const afterwards = () => pair.restore();
    return underLoad(system, { clients: context.pick({ short: 4, long: 16 }), outages: [outage], rounds, afterwards });
  },
};

interface Outages {
  readonly clients: number;
  readonly outages: readonly Outage[];
  readonly rounds: number;
  /** What makes the next round possible. */
  readonly afterwards?: () => Promise<void>;
}

/** Outages under clients that go on all the time, each with an effectful call in work. */
async function underLoad(system: FaultSystem, { clients, outages, rounds, afterwards }: Outages): Promise<CaseReport> {
  const first = system.answers.length;
  const recoveryMs = new Map<string, number[]>();
  const load = startLoad(system, clients);
  let loaded: LoadReport;
  try {
    for (let round = 0; round < rounds; round += 1) {
      for (const { name, end, back } of outages) {
        const before = load.completed();
        await eventually(() => load.completed() > before, { timeoutMs: 60_000, what: 'the load to go on' });
        const held = await startActing(system, TOOLS.effectful);
        await end();
        // A client of the moment: those of the load may all be waiting for runs.
        const from = system.answers.length;
        const client = recovered(system, performance.now());
        client.catch(() => undefined);
        try {
          await eventually(() => system.answers.slice(from).some(({ status }) => status === 503), {
            timeoutMs: 60_000,
            what: 'a client to be refused for now',
          });
          await expectAlive(system);
          await expectGatewaysReady(system, 503);
        } finally {
          await back();
        }
        const took = await recovered(system, performance.now());
        await client;
        recoveryMs.set(name, [...(recoveryMs.get(name) ?? []), took]);
        await expectGatewaysReady(system, 200);
        await system.sink.release(held.call.id);
        const { status, stopReason } = await system.waitForEnd(held.run.id);
        if (status !== 'completed') throw new Error(`run ${held.run.id} is ${status} (${stopReason})`);
      }
      if (round + 1 < rounds) await afterwards?.();
    }
  } finally {
    loaded = await load.stop();
  }
  expectAnswered(system, first);
  const slowest = [...recoveryMs].map(([name, took]) => `${name} ${Math.round(Math.max(...took))} ms`);
  return {
    doubled: loaded.doubled,
    recoveryMs: Math.max(...[...recoveryMs.values()].flat()),
    detail: `${[...recoveryMs.values()].flat().length} ends under ${loaded.runIds.length} runs, slowest recovery ${slowest.join(', ')}; clients saw ${loaded.seen}`,
  };
}
