import { RestartSchedule } from './restart-schedule.js';

describe('restarting', () => {
  it('backs off from 0.5 s to 30 s and forgives after a minute of service', () => {
    let now = 0;
    const schedule = new RestartSchedule(() => now);
    const delays: number[] = [];
    for (let attempt = 0; attempt < 8; attempt++) {
      now += 100_000;
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
    const schedule = new RestartSchedule(() => now);
    for (let start = 0; start < 5; start++) {
      now += 1_000;
      schedule.started();
      schedule.ended(60_000);
    }
    expect(schedule.delayMs()).toBe(56_000);
    now += 56_000;
    expect(schedule.delayMs()).toBe(500);
  });
});
