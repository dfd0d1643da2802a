const HEADS = ['gate', 'plugin', 'decision', 'ms'];

/** The gate waterfall as a table. */
export function gateTable(gates) {
  const rows = gates.map(({ gate, hook, outcome, durationMs }) => [gate, hook, outcome, durationMs.toFixed(2)]);
  const widths = HEADS.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column].length)));
  return [HEADS, ...rows]
    .map(
      (row) =>
        `    ${row
          .map((cell, column) => cell.padEnd(widths[column]))
          .join('  ')
          .trimEnd()}`,
    )
    .join('\n');
}
