import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { CASES } from './cases/index.js';

const read = (file: string) => readFileSync(path.join(repositoryRoot(), file), 'utf8');
const document = read('docs/failure.md');

interface Row {
  readonly fails: string;
  readonly operator: string;
  readonly proof: string;
}

const rows = document
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| what fails'))
  .map((line): Row => {
    const cells = line.split('|').map((cell) => cell.trim());
    expect(cells).toHaveLength(8);
    const [, fails = '', , operator = '', , proof = ''] = cells;
    return { fails, operator, proof };
  });

const faultsIn = (text: string) => text.match(/\b[A-Z]\d+\b/g) ?? [];
const filesIn = (text: string) => [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)+)`/g)].flatMap(([, file]) => file ?? []);

describe('the table of failures', () => {
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
