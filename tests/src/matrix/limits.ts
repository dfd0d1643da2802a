/** What a figure may be at least and at most. */
export interface Limit {
  readonly min?: number;
  readonly max?: number;
}

/** `--no-limits`: figures are printed and judged by nobody, for machines that are busy otherwise. */
export const judgesFigures = (args: readonly string[]): boolean => !args.includes('--no-limits');

/** One line for every figure that is not within its limit; a figure that is not there, or is no number, is not. */
export function missed(
  figures: Readonly<Record<string, number>>,
  limits: Readonly<Record<string, Limit>>,
): readonly string[] {
  return Object.entries(limits).flatMap(
    ([name, { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }]) => {
      const figure = figures[name] ?? Number.NaN;
      if (figure >= min && figure <= max) return [];
      const bounds = [
        ...(Number.isFinite(min) ? [`at least ${min}`] : []),
        ...(Number.isFinite(max) ? [`at most ${max}`] : []),
      ];
      return [`${name} is ${figure}, it has to be ${bounds.join(' and ')}`];
    },
  );
}
