import { eventually, type PostgresEnd } from '@codedock/testkit';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { expectAlive, expectGatewaysReady } from '../health.js';
import { expectAnswered, type LoadReport, recovered, startLoad } from '../load.js';
import { startActing } from '../observing.js';

const ENDS: readonly PostgresEnd[] = ['fast', 'immediate', 'kill'];

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
    const first = system.answers.length;
    const recoveryMs = new Map<PostgresEnd, number[]>();
    const load = startLoad(system, context.pick({ short: 4, long: 16 }));
    let loaded: LoadReport;
    try {
      for (let round = 0; round < context.pick({ short: 1, long: 7 }); round += 1) {
        for (const how of ENDS) {
          const before = load.completed();
          await eventually(() => load.completed() > before, { timeoutMs: 60_000, what: 'the load to go on' });
          const held = await startActing(system, TOOLS.effectful);
          await postgres.end(how);
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
            await postgres.restart();
          }
          const took = await recovered(system, performance.now());
          await client;
          recoveryMs.set(how, [...(recoveryMs.get(how) ?? []), took]);
          await expectGatewaysReady(system, 200);
          await system.sink.release(held.call.id);
          const { status, stopReason } = await system.waitForEnd(held.run.id);
          if (status !== 'completed') throw new Error(`run ${held.run.id} is ${status} (${stopReason})`);
        }
      }
    } finally {
      loaded = await load.stop();
    }
    expectAnswered(system, first);
    const slowest = [...recoveryMs].map(([how, took]) => `${how} ${Math.round(Math.max(...took))} ms`);
    return {
      doubled: loaded.doubled,
      recoveryMs: Math.max(...[...recoveryMs.values()].flat()),
      detail: `${[...recoveryMs.values()].flat().length} ends under ${loaded.runIds.length} runs, slowest recovery ${slowest.join(', ')}; clients saw ${loaded.seen}`,
    };
  },
};
