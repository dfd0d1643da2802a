import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort, startProcess, type TemporaryFolder, type TestProcess } from '@codedock/testkit';
import { stringify } from 'yaml';

/** What an instant query gives for one series. */
interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

/** A measurement that names its trace. */
interface Exemplar {
  readonly labels: { readonly trace_id: string; readonly span_id: string };
  readonly value: string;
}

/** A real Prometheus that scrapes every second, as slow as a busy machine may answer, and judges five times in it. */
export interface Prometheus {
  readonly process: TestProcess;
  query(expr: string): Promise<readonly Sample[]>;
  /** Exemplars of the last minutes in every series that the query selects. */
  exemplars(query: string): Promise<readonly Exemplar[]>;
  /** Names of the alerts that fire now. */
  firing(): Promise<string[]>;
}

/** Starts `prometheus` with rules over the given `/metrics` addresses. */
export async function startPrometheus(
  folder: TemporaryFolder,
  { targets, rules }: { readonly targets: readonly string[]; readonly rules: unknown },
): Promise<Prometheus> {
  const file = (name: string) => path.join(folder.path, name);
  writeFileSync(file('rules.yaml'), stringify(rules));
  writeFileSync(
    file('prometheus.yaml'),
    stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '200ms' },
      rule_files: [file('rules.yaml')],
      scrape_configs: [{ job_name: 'codedock', static_configs: [{ targets }] }],
    }),
  );
  const url = `http://127.0.0.1:${await freePort()}`;
  const process = await startProcess({
    command: 'prometheus',
    args: [
      `--config.file=${file('prometheus.yaml')}`,
      `--storage.tsdb.path=${file('data')}`,
      `--web.listen-address=${url.slice('http://'.length)}`,
      '--enable-feature=exemplar-storage',
      '--log.level=warn',
    ],
    ready: `${url}/-/ready`,
    readyTimeoutMs: 60_000,
    name: 'prometheus',
  });
  const ask = async <T>(route: string): Promise<T> => {
    const response = await fetch(`${url}/api/v1/${route}`, { headers: { connection: 'close' } });
    const body = (await response.json()) as { status: string; error?: string; data: T };
    if (body.status !== 'success') throw new Error(`Prometheus says: ${body.error}`);
    return body.data;
  };
  return {
    process,
    query: async (expr) => (await ask<{ result: readonly Sample[] }>(`query?query=${encodeURIComponent(expr)}`)).result,
    exemplars: async (query) => {
      const now = Date.now() / 1_000;
      const series = await ask<{ exemplars: readonly Exemplar[] }[]>(
        `query_exemplars?query=${encodeURIComponent(query)}&start=${now - 600}&end=${now + 60}`,
      );
      return series.flatMap(({ exemplars }) => exemplars);
    },
    firing: async () => {
      const { alerts } = await ask<{ alerts: { state: string; labels: { alertname: string } }[] }>('alerts');
      return [...new Set(alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname))];
    },
  };
}
