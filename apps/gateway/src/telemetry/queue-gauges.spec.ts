import { startQueueGauges } from './queue-gauges.js';

const COUNTS = { queued: 0, pending: 0, expiredLeases: 0, oldestQueuedMs: 0 };

test('counts that cannot be read are logged once, and again after they could be', async () => {
  jest.useFakeTimers();
  let reachable = false;
  const logged: unknown[] = [];
  const counts = async () => {
    if (!reachable) throw new Error('no database');
    return COUNTS;
  };
  const end = startQueueGauges({ counts }, { warn: (...line: unknown[]) => void logged.push(line) });
  const looks = (n: number) => jest.advanceTimersByTimeAsync(n * 5_000);
  try {
    await looks(3);
    expect(logged).toEqual([[{ err: new Error('no database') }, expect.stringContaining('keep the last counts')]]);
    reachable = true;
    await looks(1);
    reachable = false;
    await looks(2);
    expect(logged).toHaveLength(2);
  } finally {
    end();
    jest.useRealTimers();
  }
});
