import { AppError } from '@codedock/domain';
import fc from 'fast-check';
import { RequestRate } from './request-rate.js';

function rate(perSecond: number) {
  let now = 1_000;
  const limited = new RequestRate({ perSecond, now: () => now });
  return {
    limited,
    pass: (ms: number) => {
      now += ms;
    },
    takes: (tenant: string, own?: number): number | 'taken' => {
      try {
        limited.take(tenant, own);
        return 'taken';
      } catch (error) {
        expect(error).toMatchObject({ code: 'rate_limited' });
        return (error as AppError).retryAfterMs ?? 0;
      }
    },
  };
}

describe('the rate of a tenant’s requests', () => {
  it('lets a quiet tenant send a second’s worth at once, then one at a time', () => {
    const { takes, pass } = rate(4);
    expect(Array.from({ length: 4 }, () => takes('a'))).toEqual(Array.from({ length: 4 }, () => 'taken'));
    expect(takes('a')).toBeCloseTo(250);
    pass(250);
    expect(takes('a')).toBe('taken');
    expect(takes('a')).toBeCloseTo(250);
    pass(10_000);
    expect(Array.from({ length: 5 }, () => takes('a')).filter((taken) => taken === 'taken')).toHaveLength(4);
  });

  it('is each tenant’s own, with a rate of its own', () => {
    const { takes } = rate(1);
    expect([takes('a'), takes('b')]).toEqual(['taken', 'taken']);
    expect(takes('a')).not.toBe('taken');
    expect([takes('c', 2), takes('c', 2)]).toEqual(['taken', 'taken']);
  });

  it('never lets through more than rate × time + one second’s worth, and says when the next one is', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.nat({ max: 400 }), { maxLength: 200 }),
        (perSecond, pauses) => {
          const { takes, pass } = rate(perSecond);
          let taken = 0;
          let passed = 0;
          for (const pause of pauses) {
            pass(pause);
            passed += pause;
            const answer = takes('a');
            if (answer === 'taken') {
              taken += 1;
              continue;
            }
            pass(answer + 1e-3);
            passed += answer + 1e-3;
            expect(takes('a')).toBe('taken');
            taken += 1;
          }
          expect(taken).toBeLessThanOrEqual((perSecond * passed) / 1_000 + perSecond + 1e-6);
        },
      ),
    );
  });
});
