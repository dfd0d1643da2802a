import { startTestServices } from '../services/start-test-services.js';
import { keepRunServices } from './run-services.js';

/** Starts one PostgreSQL and, where installed, one Redis for a whole Jest run. */
export default async function globalSetup(): Promise<void> {
  const services = await startTestServices();
  keepRunServices(services);
  if ('skipped' in services.redis) {
    console.warn(
      `Suites that need Redis are skipped: ${services.redis.skipped}. REQUIRE_REDIS=1 makes this a failure.`,
    );
  }
}
