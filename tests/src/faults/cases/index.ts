import type { FaultCase } from '../fault-case.js';
import { blockedLoop } from './blocked-loop.js';
import { approvedManyTimes, cancelledRuns, cancelRaces, handledInterrupts } from './cancels.js';
import { killedAgainAndAgain, poison } from './crash-loops.js';
import { crashPoints } from './crash-points.js';
import { killedGateways, rollingRestarts } from './crowds.js';
import { duplicateDoorbells, reconcilersAtOnce } from './doorbells.js';
import { drainedRunners } from './drains.js';
import { flood } from './flood.js';
import { fullDisk } from './full-disk.js';
import { fullTemporaryFolder } from './full-temporary-folder.js';
import { idempotentStarts } from './idempotent-starts.js';
import { jumpingClocks } from './jumping-clocks.js';
import { killedRunners } from './killed-runners.js';
import { killedServices } from './killed-services.js';
import { lostCommits } from './lost-commits.js';
import { partitions } from './partitions.js';
import { contendedPostgres } from './postgres-contention.js';
import { failedOverPostgres, restartedPostgres } from './postgres-restarts.js';
import { providerFailures } from './provider-failures.js';
import { emptiedRedis, failedOverRedis, fullRedis, killedRedis } from './redis-failures.js';
import { slowStore } from './slow-store.js';
import { stoppedRunners } from './stopped-runners.js';
import { longReplay, stalledReaders } from './streams.js';

/** Every case, in the order in which they are run: first those that share the standing system. */
export const CASES: readonly FaultCase[] = [
  killedRunners,
  crashPoints,
  stoppedRunners,
  killedAgainAndAgain,
  poison,
  blockedLoop,
  duplicateDoorbells,
  cancelRaces,
  handledInterrupts,
  approvedManyTimes,
  providerFailures,
  reconcilersAtOnce,
  cancelledRuns,
  drainedRunners,
  rollingRestarts,
  killedGateways,
  stalledReaders,
  longReplay,
  killedServices,
  idempotentStarts,
  killedRedis,
  emptiedRedis,
  fullRedis,
  restartedPostgres,
  contendedPostgres,
  failedOverRedis,
  failedOverPostgres,
  partitions,
  slowStore,
  flood,
  lostCommits,
  jumpingClocks,
  fullDisk,
  fullTemporaryFolder,
];
