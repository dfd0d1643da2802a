import { Breaker, timeoutsToOpen } from './breaker.js';

describe('the breaker', () => {
  let now = 0;
  let breaker: Breaker;

  beforeEach(() => {
    now = 0;
    breaker = new Breaker(() => now);
  });

  const timeOut = (times: number) => {
    for (let time = 0; time < times; time++) breaker.timedOut();
  };

  it('opens after five time-outs in a row', () => {
    timeOut(timeoutsToOpen - 1);
    expect(breaker.refusal()).toBeUndefined();
    breaker.timedOut();
    expect(breaker.refusal()).toMatch(/5 time-outs in a row; next try in 1000 ms/);
  });

  it('is reset by an answer in between', () => {
    timeOut(4);
    breaker.answered();
    timeOut(4);
    expect(breaker.refusal()).toBeUndefined();
  });

  it('lets one call try after the pause', () => {
    timeOut(5);
    now = 1_000;
    expect(breaker.refusal()).toBeUndefined();
    expect(breaker.refusal()).toBeDefined();
    breaker.answered();
    expect(breaker.refusal()).toBeUndefined();
  });

  it('doubles the pause while trying fails, up to 30 s', () => {
    timeOut(5);
    let pause = 1_000;
    for (let attempt = 0; attempt < 8; attempt++) {
      now += pause;
      expect(breaker.refusal()).toBeUndefined();
      breaker.timedOut();
      pause = Math.min(pause * 2, 30_000);
      expect(breaker.refusal()).toContain(`next try in ${pause} ms`);
    }
  });

  it('lets another call try when the trying one told nothing', () => {
    timeOut(5);
    now = 1_000;
    expect(breaker.refusal()).toBeUndefined();
    breaker.inconclusive();
    expect(breaker.refusal()).toBeUndefined();
  });
});
