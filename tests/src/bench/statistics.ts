/** The value below which a share of the samples lies; `share` between 0 and 1. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Middle value. */
export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

/** Rounded for print: three significant digits, at most four decimals. */
export function rounded(value: number): number {
  return Number(Number(value.toPrecision(3)).toFixed(4));
}

/** A table with a head line; numbers to the right. */
export function printTable(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  const cells = [heads, ...rows].map((row) => row.map(String));
  const widths = heads.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  for (const row of cells) {
    console.log(
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join('  '),
    );
  }
}
