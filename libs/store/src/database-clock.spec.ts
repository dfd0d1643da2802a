import { eventually } from '@codedock/testkit';
import { clockOf, openDatabaseClock } from './database-clock.js';

const AHEAD_MS = 600_000;

describe("the database's clock", () => {
  it('is the time the database said, carried on whatever happens to the clock of this machine', async () => {
    const asked = Date.now() + AHEAD_MS;
    const clock = await openDatabaseClock({ now: async () => asked });
    const own = jest.spyOn(Date, 'now').mockReturnValue(0);
    try {
      const first = clock.now();
      expect(first).toBeGreaterThanOrEqual(asked);
      expect(clock.now()).toBeGreaterThanOrEqual(first);
    } finally {
      own.mockRestore();
      clock.close();
    }
  });

  it('follows a database whose clock is another one now, and stays where the database does not answer', async () => {
    let ahead = AHEAD_MS;
    let failures = 0;
    const now = async () => {
      if (failures > 0) {
        failures += 1;
        throw new Error('gone');
      }
      return performance.now() + ahead;
    };
    const clock = await openDatabaseClock({ now }, { everyMs: 5 });
    try {
      const off = () => clock.now() - performance.now();
      expect(Math.round(off() / 1_000)).toBe(AHEAD_MS / 1_000);
      ahead = -AHEAD_MS;
      await eventually(() => off() < 0);
      failures = 1;
      await eventually(() => failures > 3);
      expect(Math.round(off() / 1_000)).toBe(-AHEAD_MS / 1_000);
    } finally {
      clock.close();
    }
  });
});

it('a sleep ends with its time or with the signal, and never fails', async () => {
  const clock = clockOf({ now: () => 7 }, { keepsAlive: true });
  expect(clock.now()).toBe(7);
  await clock.sleep(1, new AbortController().signal);
  const controller = new AbortController();
  const slept = clock.sleep(60_000, controller.signal);
  controller.abort();
  await slept;
  await clock.sleep(60_000, controller.signal);
});
