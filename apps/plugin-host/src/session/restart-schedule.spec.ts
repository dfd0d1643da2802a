import { RestartSchedule } from './restart-schedule.js';

const settings = { policy: 'on-failure', backoffMs: 500, maxBackoffMs: 30_000 } as const;

describe('restarting', () => {
  it('waits longer after every failure, up to 30 s, and forgets after a minute of health', () => {
    let now = 0;
    const schedule = new RestartSchedule(settings, () => now);
    const delays: number[] = [];
    for (let time = 0; time < 8; time++) {
      now += 600_000;
      schedule.started();
      schedule.ended(0);
      delays.push(schedule.delayMs());
    }
    expect(delays).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    schedule.ended(60_000);
    expect(schedule.delayMs()).toBe(500);
  });

  it('starts at most five times a minute', () => {
    let now = 0;
    const schedule = new RestartSchedule(settings, () => now);
    for (let start = 0; start < 5; start++) {
      now = start * 1_000;
      schedule.started();
      schedule.ended(60_000);
    }
    expect(schedule.delayMs()).toBe(56_000);
    now += 56_000;
    expect(schedule.delayMs()).toBe(500);
  });

  it('waits as long as plugin.json says', () => {
    const schedule = new RestartSchedule({ ...settings, backoffMs: 100, maxBackoffMs: 150 });
    schedule.ended(0);
    expect(schedule.delayMs()).toBe(100);
    schedule.ended(0);
    expect(schedule.delayMs()).toBe(150);
  });

  it.each([
    ['on-failure', false, true],
    ['on-failure', true, false],
    ['always', true, true],
    ['never', false, false],
  ] as const)('with the policy %s, after a quiet end %s: %s', (policy, quietly, expected) => {
    expect(new RestartSchedule({ ...settings, policy }).restarts(quietly)).toBe(expected);
  });
});
