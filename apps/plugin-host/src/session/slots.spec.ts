import { Slots } from './slots.js';

describe('slots', () => {
  it('hands places on in order', async () => {
    const slots = new Slots(1);
    expect(slots.tryTake()).toBe(true);
    const order: string[] = [];
    const first = slots.take(1_000).then((granted) => order.push(`first ${granted}`));
    const second = slots.take(1_000).then((granted) => order.push(`second ${granted}`));
    slots.release();
    await first;
    slots.release();
    await second;
    expect(order).toEqual(['first true', 'second true']);
    slots.release();
    expect(slots.inUse).toBe(0);
  });

  it('gives up in time, and a place released later is free', async () => {
    const slots = new Slots(1);
    slots.tryTake();
    expect(await slots.take(10)).toBe(false);
    slots.release();
    expect(slots.tryTake()).toBe(true);
  });

  it('stops waiting when the signal fires', async () => {
    const slots = new Slots(0);
    const abort = new AbortController();
    const waiting = slots.take(60_000, abort.signal);
    abort.abort();
    expect(await waiting).toBe(false);
  });
});
