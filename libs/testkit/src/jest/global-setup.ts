import { startTestPostgres } from '../services/postgres.js';
import { startRunRedis } from '../services/redis.js';
import { publishTestServices } from '../services/test-services.js';
import { keepRunServices } from './run-services.js';

/** Starts one PostgreSQL and, where installed, one Redis for a whole Jest run. */
export default async function globalSetup(): Promise<void> {
  const redis = await startRunRedis();
  const stopRedis = async () => {
    if (!('skipped' in redis)) {
      await redis.stop();
    }
  };
  try {
    const { adminUrl, owner, template, databasePrefix, stop } = await startTestPostgres();
    publishTestServices({
      adminUrl,
      owner,
      template,
      databasePrefix,
      redis: 'skipped' in redis ? redis : { url: redis.url },
    });
    keepRunServices({
      stop: async () => {
        await stop();
        await stopRedis();
      },
    });
  } catch (error) {
    await stopRedis();
    throw error;
  }
  if ('skipped' in redis) {
    console.warn(`Suites that need Redis are skipped: ${redis.skipped}. REQUIRE_REDIS=1 makes this a failure.`);
  }
}
