import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from '@codedock/testkit';
import { parse, parseAllDocuments } from 'yaml';
import { fieldProblems } from './check-objects.js';
import { differences } from './differences.js';
import { chart, helm, modes, newest, render, template, valuesOf, versions } from './helm.js';
import type { KubeObject } from './kubernetes/server-side-apply.js';
import { podSecurityProblems } from './pod-security.js';
import { ruleProblems } from './rules.js';

/** Modes that need a newer Kubernetes than the oldest. */
const SINCE: Readonly<Record<string, string>> = { 'plugins-image-volume': '1.33.0' };

async function baseOf(mode: string, version: string): Promise<KubeObject[]> {
  if (version !== newest) return render(mode, newest);
  return mode === 'standard' ? [] : render('standard', version);
}

const cases = modes.flatMap((mode) =>
  versions.filter((version) => version >= (SINCE[mode] ?? '')).map((version) => [mode, version] as const),
);

describe.each(cases)('%s on Kubernetes %s', (mode, version) => {
  it('keeps the rules', async () => {
    expect(ruleProblems(await render(mode, version))).toEqual([]);
  });

  it('fits the restricted profile', async () => {
    expect(podSecurityProblems(await render(mode, version))).toEqual([]);
  });

  // The standard mode is here as a whole; of the others, and of older versions, what differs.
  it('is as it was', async () => {
    const objects = await render(mode, version);
    expect(differences(objects, await baseOf(mode, version))).toMatchSnapshot();
  });
});

it('all objects of all modes pass strict field validation', async () => {
  const unique = new Map<string, KubeObject>();
  for (const [mode, version] of cases) {
    for (const object of await render(mode, version)) {
      if (object.kind !== 'Secret') unique.set(JSON.stringify(object), object);
    }
  }
  const objects = [...unique.values()];
  const problems = await fieldProblems(objects);
  const shown = problems.flatMap((some, index) =>
    some.map((one) => `${objects[index]?.kind} ${objects[index]?.metadata.name}: ${one}`),
  );
  expect(shown).toEqual([]);
});

it.each(modes)('helm lint --strict has nothing to say about %s', async (mode) => {
  const version = SINCE[mode] ?? versions[0];
  const { code, stdout, stderr } = await helm([
    'lint',
    '--strict',
    '--kube-version',
    version,
    chart,
    '-f',
    valuesOf(mode),
  ]);
  expect({ code, output: code === 0 ? '' : stdout + stderr }).toEqual({ code: 0, output: '' });
});

it('a plugin image as a volume is refused where Kubernetes has none', async () => {
  const { code, stderr } = await template('plugins-image-volume', { kubeVersion: '1.32.9' });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('Use the method copy') });
});

it('Kubernetes below the range is refused', async () => {
  const { code, stderr } = await template('standard', { kubeVersion: '1.28.0' });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('>=1.29.0-0') });
});

it('the packed chart is the chart, without what only its developers need', async () => {
  const folder = await temporaryFolder();
  try {
    const packed = await helm(['package', chart, '--destination', folder.path]);
    expect({ code: packed.code, stderr: packed.stderr }).toEqual({ code: 0, stderr: '' });
    const file = path.join(folder.path, readdirSync(folder.path)[0] ?? 'none');
    const content = execFileSync('tar', ['tzf', file], { encoding: 'utf8' }).split('\n');
    expect(content).toEqual(expect.arrayContaining(['codedock/values.schema.json', 'codedock/files/real-run.mjs']));
    expect(content.filter((name) => /\/ci\/|intro|defs/.test(name))).toEqual([]);
    const { code } = await helm(['template', 'dock', file, '--namespace', 'agents', '-f', valuesOf('standard')]);
    expect(code).toBe(0);
  } finally {
    await folder.remove();
  }
});

it('alerts and dashboards are in the chart as they are shipped', async () => {
  const args = ['--set', 'telemetry.prometheusRule.runbooks=https://docs.example.com/runbooks'];
  const { stdout } = await template('monitoring', { args });
  const objects = parseAllDocuments(stdout, { version: '1.1' }).map((document) => document.toJS() as KubeObject | null);
  const shipped = (folder: string) =>
    readdirSync(path.join(chart, '../..', folder)).map((name) => path.join(chart, '../..', folder, name));
  const rules = objects.filter((object) => object?.kind === 'PrometheusRule');
  expect(rules).toHaveLength(shipped('prometheus').length);
  for (const file of shipped('prometheus')) {
    const text = readFileSync(file, 'utf8').replaceAll(
      'docs/operating/runbooks.md',
      'https://docs.example.com/runbooks',
    );
    expect(rules.map((rule) => rule?.spec?.['groups'])).toContainEqual(parse(text).groups);
  }
  const dashboards = objects.flatMap((object) =>
    Object.entries(object?.data ?? {}).filter(([name]) => name.endsWith('.json') && name !== 'plan.json'),
  );
  expect(dashboards).toHaveLength(shipped('grafana').length);
  for (const file of shipped('grafana')) {
    const [, text = ''] = dashboards.find(([name]) => name === path.basename(file)) ?? [];
    expect(JSON.parse(text)).toEqual(JSON.parse(readFileSync(file, 'utf8')));
  }
});
