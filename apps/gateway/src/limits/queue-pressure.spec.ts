import { QueuePressure } from './queue-pressure.js';

describe('a queue that is full', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  const refused = (pressure: QueuePressure) => {
    try {
      pressure.check();
      pressure.took();
      return false;
    } catch (error) {
      expect(error).toMatchObject({ code: 'rate_limited', retryAfterMs: 5_000 });
      return true;
    }
  };

  it('takes no further run until some have left it', async () => {
    let queued = 0;
    const pressure = new QueuePressure({ max: 3, queued: async () => queued, onError: () => undefined });
    expect([1, 2, 3, 4].map(() => refused(pressure))).toEqual([false, false, false, true]);
    queued = 2;
    await jest.advanceTimersByTimeAsync(1_000);
    expect([1, 2].map(() => refused(pressure))).toEqual([false, true]);
    queued = 3;
    await jest.advanceTimersByTimeAsync(1_000);
    expect(refused(pressure)).toBe(true);
    await pressure.close();
  });

  it('is not asked about while nothing comes in, and a database that is away is reported only', async () => {
    let asked = 0;
    const errors: unknown[] = [];
    const queued = async () => {
      asked += 1;
      throw new Error('away');
    };
    const pressure = new QueuePressure({ max: 10, queued, onError: (error) => errors.push(error) });
    await jest.advanceTimersByTimeAsync(10_000);
    expect(asked).toBe(0);
    pressure.took();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(asked).toBe(1);
    expect(errors).toHaveLength(1);
    expect(refused(pressure)).toBe(false);
    await pressure.close();
  });
});
