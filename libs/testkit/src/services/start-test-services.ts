import { startTestPostgres } from './postgres.js';
import { startRunRedis } from './redis.js';
import { publishTestServices, type TestServices } from './test-services.js';

/** One PostgreSQL and, where installed, one Redis for a whole run of tests. */
export interface RunningTestServices {
  readonly redis: TestServices['redis'];
  /** Ends what was started; databases of this run are dropped. */
  stop(): Promise<void>;
}

/** Starts the services of a run and makes them known to `testServices()` of this process and its children. */
export async function startTestServices(): Promise<RunningTestServices> {
  const redis = await startRunRedis();
  const stopRedis = async () => {
    if (!('skipped' in redis)) {
      await redis.stop();
    }
  };
  try {
    const { adminUrl, owner, template, databasePrefix, stop } = await startTestPostgres();
    const known = 'skipped' in redis ? redis : { url: redis.url };
    publishTestServices({ adminUrl, owner, template, databasePrefix, redis: known });
    return {
      redis: known,
      stop: async () => {
        publishTestServices(undefined);
        await stop();
        await stopRedis();
      },
    };
  } catch (error) {
    await stopRedis();
    throw error;
  }
}
