import { readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { dashboardQueries, metricsOf, shippedRules } from './shipped.js';

const read = (file: string) => readFileSync(path.join(repositoryRoot(), 'deploy', file), 'utf8');

it.each([
  ['prometheus/codedock-rules.yaml', 'helm/codedock/files/rules/codedock-rules.yaml'],
  ['grafana/codedock.json', 'helm/codedock/files/dashboards/codedock.json'],
])('the chart ships %s as it is: `npm run gen` copies it', (file, copy) => {
  expect(read(copy)).toBe(read(file));
});

it('every query of rules and dashboard is PromQL over metrics of the product', () => {
  const rules = shippedRules().groups.flatMap((group) => group.rules);
  const names = [...rules, ...dashboardQueries()].flatMap(({ expr }) => metricsOf(expr));
  expect(names.length).toBeGreaterThan(30);
  for (const name of names) expect(name).toMatch(/^codedock_[a-z_]+$/);
  expect(() => metricsOf('sum by (a (b)')).toThrow(/no PromQL/);
});

it('every latency of the dashboard shows exemplars', () => {
  const { panels } = JSON.parse(read('grafana/codedock.json')) as {
    panels: { targets: { expr: string; exemplar?: boolean }[] }[];
  };
  const latencies = panels.flatMap(({ targets }) =>
    targets.filter(({ expr }) => expr.startsWith('histogram_quantile')),
  );
  expect(latencies.length).toBeGreaterThan(10);
  for (const query of latencies) expect(query).toMatchObject({ exemplar: true });
});

it('alert names are unique', () => {
  const names = shippedRules().groups.flatMap((group) => group.rules.map(({ alert }) => alert));
  expect(new Set(names).size).toBe(names.length);
});
