import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { KubeObject } from './kubernetes/server-side-apply.js';

const root = path.resolve(__dirname, '../../..');
/** Folder of the chart. */
export const chart = path.join(root, 'deploy/helm/codedock');
/** Names of the values files that stand for the modes of the chart. */
export const modes = readdirSync(path.join(chart, 'ci')).map((file) => file.replace(/-values\.yaml$/, ''));
/** Newest Kubernetes the chart is checked for. */
export const newest = '1.35.0';
/** Kubernetes the chart is checked for, rising: oldest, those where templates begin to render something else, newest. */
export const versions = ['1.29.0', '1.30.0', '1.33.0', newest] as const;

/** How a program ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs helm; a failure is an answer, not an exception. */
export function helm(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const program = process.env['HELM'] ?? 'helm';
  const options = { env: { ...process.env, ...env }, maxBuffer: 2 ** 27, timeout: 120_000 };
  return new Promise((resolve) => {
    execFile(program, [...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr });
    });
  });
}

/** The values file of a mode. */
export function valuesOf(mode: string): string {
  return path.join(chart, 'ci', `${mode}-values.yaml`);
}

/** Options of `helm template`. */
export interface RenderOptions {
  readonly kubeVersion?: string;
  /** `--set` and the like. */
  readonly args?: readonly string[];
}

/** What `helm template` prints for a mode. */
export function template(mode: string, { kubeVersion = newest, args = [] }: RenderOptions = {}): Promise<Ended> {
  return helm([
    'template',
    'dock',
    chart,
    '--namespace',
    'agents',
    '-f',
    valuesOf(mode),
    '--kube-version',
    kubeVersion,
    ...args,
  ]);
}

const rendered = new Map<string, Promise<KubeObject[]>>();

/** The objects of a mode; rendered once per suite, so not to be changed. @throws when the chart cannot be rendered. */
export function render(mode: string, kubeVersion: string = newest): Promise<KubeObject[]> {
  const id = `${mode} ${kubeVersion}`;
  const objects = rendered.get(id) ?? objectsOf(mode, kubeVersion);
  rendered.set(id, objects);
  return objects;
}

async function objectsOf(mode: string, kubeVersion: string): Promise<KubeObject[]> {
  const { code, stdout, stderr } = await template(mode, { kubeVersion });
  if (code !== 0) throw new Error(`helm template of ${mode} failed: ${stderr}`);
  // As helm reads it: YAML 1.1, in which 0440 is octal.
  return parseAllDocuments(stdout, { version: '1.1' })
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
}

/** Home and kubeconfig of one cluster. */
export interface HelmHome {
  readonly env: Readonly<Record<string, string>>;
  remove(): void;
}

/** A home for helm in which nothing of the machine's is. */
export function helmHome(apiServer: string): HelmHome {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-helm-'));
  const config = path.join(folder, 'kubeconfig');
  const context = { name: 'test', context: { cluster: 'test', user: 'test', namespace: 'agents' } };
  writeFileSync(
    config,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server: apiServer } }],
      users: [{ name: 'test', user: {} }],
      contexts: [context],
      'current-context': 'test',
    }),
  );
  return {
    env: {
      KUBECONFIG: config,
      HOME: folder,
      HELM_CACHE_HOME: folder,
      HELM_CONFIG_HOME: folder,
      HELM_DATA_HOME: folder,
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
