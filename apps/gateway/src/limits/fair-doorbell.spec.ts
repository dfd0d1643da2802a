import type { Doorbell, Ring } from '@codedock/domain';
import { FairDoorbell } from './fair-doorbell.js';

describe('rings of a tenant that sends many runs at once', () => {
  let now = 0;
  const rung: Ring[] = [];
  const doorbell: Doorbell = {
    ring: async (ring) => void rung.push(ring),
    waiting: async () => 0,
    waits: async () => false,
  };
  const fair = new FairDoorbell(() => now);
  const send = async (tenantId: string, priority = 0) => {
    await fair.of(tenantId, doorbell).ring({ runId: 'run', doorbell: 1, priority, trace: {} });
    return rung.at(-1)?.priority;
  };

  it('come one behind the other until they are counted, and hold up nobody else', async () => {
    expect([await send('many'), await send('many'), await send('many')]).toEqual([0, 1, 2]);
    expect(await send('few')).toBe(0);
    // The sweep has counted them.
    expect([await send('many', 3), await send('many', 3)]).toEqual([3, 4]);
    now = 10_000;
    expect(await send('many', 3)).toBe(3);
  });

  it('never fall back by a number from before the sweep', async () => {
    now = 20_000;
    expect([await send('flood'), await send('flood')]).toEqual([0, 1]);
    const places = [await send('flood', 2), await send('flood', 0), await send('flood', 2), await send('flood', 0)];
    expect(places).toEqual([2, 3, 4, 5]);
  });

  it('are exact where every run is counted at once', async () => {
    expect([await send('capped', 4), await send('capped', 5), await send('capped', 6)]).toEqual([4, 5, 6]);
  });
});
