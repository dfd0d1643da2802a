import type { Command } from 'commander';

/** Prints an answer: as JSON with `--json`, else with the given text. */
export function print(command: Command, answer: unknown, text: () => string): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  process.stdout.write(`${json === true ? JSON.stringify(answer, undefined, 2) : text()}\n`);
}

/** Columns aligned by their widest cell; the last one is not padded. Says `none` when there is no row. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number | undefined)[])[]): string {
  if (rows.length === 0) return 'none';
  const cells = [heads, ...rows].map((row) => row.map((cell) => String(cell ?? '')));
  const widths = heads.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)));
  return cells
    .map((row) =>
      row
        .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Prints what went wrong to stderr. */
export function printFailure(error: unknown): void {
  process.stderr.write(`codedock: ${error instanceof Error ? error.message : String(error)}\n`);
}
