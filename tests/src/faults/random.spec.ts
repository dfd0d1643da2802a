import { seededRandom } from './random.js';

test('the same seed makes the same choices, another seed others', () => {
  const choices = (seed: number) => {
    const random = seededRandom(seed);
    return Array.from({ length: 20 }, () => random.integer(1, 6));
  };
  expect(choices(7)).toEqual(choices(7));
  expect(choices(8)).not.toEqual(choices(7));
  expect(new Set(Array.from({ length: 20 }, (_, seed) => choices(seed)).flat())).toEqual(new Set([1, 2, 3, 4, 5, 6]));
});

test('there is nothing to choose from nothing', () => {
  expect(() => seededRandom(1).oneOf([])).toThrow(RangeError);
});
