import { eventually, eventuallyDefined, within } from './eventually.js';

describe('eventually', () => {
  test('returns the first value that is not false', async () => {
    let calls = 0;
    const value = await eventually(() => {
      calls += 1;
      return calls < 3 ? false : calls;
    });
    expect(value).toBe(3);
  });

  test('goes on while the attempt throws, and takes undefined as done', async () => {
    let calls = 0;
    await eventually(() => {
      calls += 1;
      expect(calls).toBe(2);
    });
    expect(calls).toBe(2);
  });

  test('reports the last failure and what was awaited', async () => {
    const failing = eventually(() => expect(1).toBe(2), { timeoutMs: 50, what: 'one to be two' });
    await expect(failing).rejects.toThrow(/Waited 50 ms for one to be two:[\s\S]*Expected: 2/);
  });

  test('eventuallyDefined goes on while the value is undefined', async () => {
    const values = [undefined, undefined, 'here'];
    expect(await eventuallyDefined(() => values.shift())).toBe('here');
    await expect(eventuallyDefined(() => undefined, { timeoutMs: 30 })).rejects.toThrow('it stayed undefined');
  });

  test('within rejects a promise that stays pending', async () => {
    await expect(within(new Promise(() => undefined), 20, 'an answer')).rejects.toThrow('Waited 20 ms for an answer');
    expect(await within(Promise.resolve(7), 20, 'an answer')).toBe(7);
  });
});
