/** Seeded choices, so that a run of the suite can be repeated. */
export interface Random {
  /** 0 ≤ n < 1. */
  next(): number;
  /** min ≤ n ≤ max, whole. */
  integer(min: number, max: number): number;
  /** One of them. @throws RangeError when there is none. */
  oneOf<T>(values: readonly T[]): T;
}

/** Mulberry32: small, and good enough for choosing a victim. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    oneOf: (values) => {
      const chosen = values[Math.floor(next() * values.length)];
      if (chosen === undefined) throw new RangeError('There is nothing to choose from.');
      return chosen;
    },
  };
}
