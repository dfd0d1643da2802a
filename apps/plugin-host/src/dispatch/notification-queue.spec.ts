import { plugin } from '@codedock/proto';
import { NotificationQueue, queueCapacity } from './notification-queue.js';

const event = (runId: string, type: string) => plugin.Envelope.fromPartial({ type, runId });

describe('the queue of one plugin', () => {
  it('keeps the order of a run while runs overtake each other', async () => {
    const delivered: string[] = [];
    let finishFirst: () => void = () => undefined;
    const queue = new NotificationQueue(async ({ runId, type }) => {
      delivered.push(`${runId}:${type}`);
      if (type === 'slow') await new Promise<void>((resolve) => (finishFirst = resolve));
    });
    queue.add(event('a', 'slow'));
    queue.add(event('a', 'next'));
    queue.add(event('b', 'other'));
    await Promise.resolve();
    expect(delivered).toEqual(['a:slow', 'b:other']);
    finishFirst();
    await new Promise((resolve) => setImmediate(resolve));
    expect(delivered).toEqual(['a:slow', 'b:other', 'a:next']);
  });

  it('drops and counts what does not fit', () => {
    const queue = new NotificationQueue(() => new Promise(() => undefined));
    for (let number = 0; number < queueCapacity + 11; number++) queue.add(event('a', `${number}`));
    expect(queue.dropped).toBe(10);
  });
});
