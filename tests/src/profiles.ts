import { describeWithRedis } from '@codedock/testkit';

/** What backs queue and live bus in a suite. */
export type Profile = 'embedded' | 'redis';

/**
 * Defines a suite once per profile: embedded (BullMQ on PostgreSQL, LISTEN) always, Redis where a server can be started;
 * where it cannot, the suite is skipped with the reason.
 */
export function describeOnEachProfile(name: string, suite: (profile: Profile) => void): void {
  describe(`${name} (embedded)`, () => suite('embedded'));
  describeWithRedis(`${name} (redis)`, () => suite('redis'));
}
