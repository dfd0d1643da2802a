import type { Ring } from '@codedock/domain';
import type { RungRun, Store } from '@codedock/store';
import { LostRings } from './lost-rings.js';
import type { RunPorts } from './ports.js';

/** A queue of so many runs, all rung long ago, with what the queue knows of their rings. */
function queueOf(count: number, isLost: (index: number) => boolean, others = 0) {
  const runs = Array.from({ length: count }, (_, index) => ({
    runId: `run-${index}`,
    doorbell: 1,
    position: index + 1,
  }));
  const waits = new Map(runs.map(({ runId }, index) => [runId, !isLost(index)]));
  const rung: string[] = [];
  let asked = 0;
  const ports = {
    store: {
      runs: {
        untaken: async ({ after, limit }: { after: number; limit: number }) => ({
          queued: count,
          runs: runs.filter(({ position, runId }) => position > after && !rung.includes(runId)).slice(0, limit),
        }),
        ringAgain: async (lost: readonly RungRun[]) =>
          lost.map(({ runId }): Ring => ({ runId, doorbell: 2, priority: 1, trace: {} })),
      },
    } as unknown as Store,
    doorbell: {
      waiting: async () => [...waits.values()].filter(Boolean).length + others,
      waits: async ({ runId }: RungRun) => {
        asked += 1;
        return waits.get(runId) === true;
      },
      ring: async ({ runId }: Ring) => {
        rung.push(runId);
        waits.set(runId, true);
      },
    },
  } as unknown as RunPorts;
  return { ports, rung, asked: () => asked };
}

describe('queued runs that nobody has taken', () => {
  it('are not rung again while their rings wait, however many they are', async () => {
    const { ports, rung, asked } = queueOf(20_000, () => false);
    const rings = new LostRings();
    for (let pass = 0; pass < 10; pass += 1) await rings.ringAgain(ports);
    expect(rung).toEqual([]);
    expect(asked()).toBe(500);
  });

  it('are all rung again when the queue has lost everything', async () => {
    const { ports, rung } = queueOf(2_500, () => true);
    const rings = new LostRings();
    for (let pass = 0; pass < 6; pass += 1) await rings.ringAgain(ports);
    expect(new Set(rung).size).toBe(2_500);
    expect(rung).toHaveLength(2_500);
  });

  it('are found among thousands that wait, and rung alone', async () => {
    const { ports, rung } = queueOf(3_000, (index) => index === 2_900);
    const rings = new LostRings();
    for (let pass = 0; pass < 3; pass += 1) await rings.ringAgain(ports);
    expect(rung).toEqual(['run-2900']);
  });

  it('are found although rings of runs that are over hide them', async () => {
    const { ports, rung } = queueOf(300, (index) => index === 299, 50);
    const rings = new LostRings();
    for (let pass = 0; pass < 6; pass += 1) await rings.ringAgain(ports);
    expect(rung).toEqual(['run-299']);
  });
});
