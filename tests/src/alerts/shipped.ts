import { readFileSync } from 'node:fs';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';

/** One alert as it ships. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

export const RULES_FILE = path.join(repositoryRoot(), 'deploy/prometheus/codedock-rules.yaml');
const DASHBOARD_FILE = path.join(repositoryRoot(), 'deploy/grafana/codedock.json');

/** The rules, and the file they are in as it parses. */
export function shippedRules(): { groups: { name: string; rules: AlertRule[] }[] } {
  return parse(readFileSync(RULES_FILE, 'utf8'));
}

/** Every query of the dashboard with its panel, Grafana's variables replaced by what they stand for. */
export function dashboardQueries(): { readonly panel: string; readonly expr: string }[] {
  const { panels, templating } = JSON.parse(readFileSync(DASHBOARD_FILE, 'utf8')) as {
    panels: { title: string; targets: { expr: string }[] }[];
    templating: { list: { name: string; query: string }[] };
  };
  const variables = templating.list.flatMap(({ name, query }) => {
    const [, metric] = /^label_values\((\w+), \w+\)$/.exec(query) ?? [];
    return metric === undefined ? [] : [{ panel: `variable ${name}`, expr: metric }];
  });
  const shown = panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }) => ({
      panel: title,
      expr: expr.replaceAll('$__rate_interval', '1m').replace(/\$(gate|plugin)\b/g, '.*'),
    })),
  );
  return [...variables, ...shown];
}

/** Names of the metrics a query reads. @throws when it is no PromQL. */
export function metricsOf(expr: string): string[] {
  const names = new Set<string>();
  parser.parse(expr).iterate({
    enter({ type, from, to }) {
      if (type.isError) throw new Error(`no PromQL at ${from}: ${expr}`);
      if (type.name === 'VectorSelector') {
        const [name] = /^\w+/.exec(expr.slice(from, to)) ?? [];
        if (name !== undefined) names.add(name);
      }
    },
  });
  return [...names];
}
