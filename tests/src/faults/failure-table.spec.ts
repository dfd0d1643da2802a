import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { CASES } from './cases/index.js';

const read = (file: string) => readFileSync(path.join(repositoryRoot(), file), 'utf8');
const document = read('docs/failure.md');

interface Row {
  readonly cells: readonly string[];
  readonly fails: string;
  readonly kept: string;
  readonly operator: string;
  readonly proof: string;
  readonly measured: string;
}

const HEADER = [
  'what fails',
  'what the client sees',
  'what is kept',
  'what the operator sees',
  'what recovers it',
  'proof',
  'measured',
];

/** Of one line of a table. */
const cellsOf = (line: string) =>
  line
    .replace(/^\|/, '')
    .replace(/\|$/, '')
    .split('|')
    .map((cell) => cell.trim());

const lines = document.split('\n').filter((line) => line.startsWith('| '));
const headers = lines.filter((line) => line.startsWith('| what fails')).map(cellsOf);
const rows = lines
  .filter((line) => !line.startsWith('| what fails'))
  .map((line): Row => {
    const cells = cellsOf(line);
    const [fails = '', , kept = '', operator = '', , proof = '', measured = ''] = cells;
    return { cells, fails, kept, operator, proof, measured };
  });

const SHORT = new Set(CASES.filter(({ tiers }) => tiers.includes('short')).map(({ id }) => id));
const faultsIn = (text: string) => text.match(/\b[A-Z]\d+\b/g) ?? [];
/** Those whose short tier is the proof: `N1 (long tier)` is what only the other one does. */
const shortFaultsIn = (text: string) =>
  faultsIn(text.replace(/\b[A-Z]\d+ \(long tier\)/g, '')).filter((id) => SHORT.has(id));
const filesIn = (text: string) => [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)+)`/g)].flatMap(([, file]) => file ?? []);

describe('the table of failures', () => {
  it('says for every failure all that there is to say', () => {
    for (const header of headers) expect(header).toEqual(HEADER);
    for (const { cells, fails, kept } of rows) {
      expect({ fails, columns: cells.length }).toEqual({ fails, columns: HEADER.length });
      expect({ fails, empty: HEADER.filter((_, column) => cells[column] === '') }).toEqual({ fails, empty: [] });
      // Something is always kept.
      expect({ fails, kept }).not.toEqual({ fails, kept: '–' });
    }
  });

  it('names for every failure a fault or a suite that exists', () => {
    const known = new Set(CASES.map(({ id }) => id));
    expect(rows.length).toBeGreaterThan(30);
    for (const { fails, proof } of rows) {
      const [faults, files] = [faultsIn(proof), filesIn(proof)];
      expect({ fails, proofs: faults.length + files.length }).not.toMatchObject({ proofs: 0 });
      expect({ fails, unknown: faults.filter((id) => !known.has(id)) }).toEqual({ fails, unknown: [] });
      const missing = files.filter((file) => !existsSync(path.join(repositoryRoot(), file)));
      expect({ fails, missing }).toEqual({ fails, missing: [] });
    }
  });

  it('says what was measured wherever the short tier of a case is the proof', () => {
    const unmeasured = rows.filter(({ proof, measured }) => measured === '–' && shortFaultsIn(proof).length > 0);
    expect(unmeasured.map(({ fails }) => fails)).toEqual([]);
  });

  it('names every case of the fault suite', () => {
    const named = new Set(rows.flatMap(({ proof }) => faultsIn(proof)));
    expect(CASES.map(({ id }) => id).filter((id) => !named.has(id))).toEqual([]);
  });

  it('names alerts that have a runbook, and metrics that there are', () => {
    const runbooks = read('docs/operating/runbooks.md');
    const metrics = read('docs/metrics.md');
    const operator = rows.map((row) => row.operator).join('\n');
    for (const [, alert = '', anchor = ''] of operator.matchAll(
      /\[(CodeDock\w+)\]\(operating\/runbooks\.md#(\w+)\)/g,
    )) {
      expect(anchor).toBe(alert.toLowerCase());
      expect(runbooks).toContain(`\n## ${alert}\n`);
    }
    for (const [metric] of operator.matchAll(/codedock_\w+/g)) expect(metrics).toContain(metric);
  });
});
