import { eventually } from '@codedock/testkit';
import { parseAllDocuments } from 'yaml';
import { type RenderOptions, template } from './helm.js';
import type { Cluster } from './kubernetes/cluster.js';
import { groupVersionOf, RESOURCES } from './kubernetes/resources.js';
import type { KubeObject, Writer } from './kubernetes/server-side-apply.js';

const CONTROLLER: Writer = { manager: 'argocd-controller', operation: 'Apply' };
const PHASES: Readonly<Record<string, Phase>> = {
  'pre-install': 'PreSync',
  'pre-upgrade': 'PreSync',
  'post-install': 'PostSync',
  'post-upgrade': 'PostSync',
};

type Phase = 'PreSync' | 'Sync' | 'PostSync';

/** What one sync is given. */
export interface SyncOptions extends RenderOptions {
  /** `ignoreDifferences` of /spec/replicas with `RespectIgnoreDifferences`: what is there is sent in its place. */
  readonly ignoreReplicas?: boolean;
}

/**
 * One sync of a mode by the rules of Argo CD: rendered without a cluster, hooks mapped to phases and ordered by weight,
 * a Job waited for before what comes after it, everything else applied by one field manager and by force. Resolves to
 * what was written, in order. @throws when the chart cannot be rendered or a hook fails; then later phases are not begun.
 */
export async function sync(cluster: Cluster, mode: string, options: SyncOptions = {}): Promise<string[]> {
  const { code, stdout, stderr } = await template(mode, options);
  if (code !== 0) throw new Error(`helm template of ${mode} failed: ${stderr}`);
  const objects = parseAllDocuments(stdout, { version: '1.1' })
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
  const written: string[] = [];
  const apply = (object: KubeObject) => {
    written.push(`${object.kind} ${object.metadata.name}`);
    cluster.apply(keyOf(object), object, CONTROLLER, { force: true, dryRun: false });
  };
  for (const phase of ['PreSync', 'Sync', 'PostSync'] as const) {
    const own = objects.filter((object) => phaseOf(object) === phase);
    if (phase === 'Sync') {
      for (const object of own) apply(options.ignoreReplicas === true ? withLiveReplicas(cluster, object) : object);
      continue;
    }
    for (const hook of own.sort((a, b) => weightOf(a) - weightOf(b))) {
      cluster.delete(keyOf(hook));
      apply(hook);
      if (hook.kind === 'Job') await succeeded(cluster, hook);
    }
    for (const hook of own) cluster.delete(keyOf(hook));
  }
  return written;
}

/** Hooks of no phase (`test`) are left out, as Argo CD does. */
function phaseOf({ metadata }: KubeObject): Phase | undefined {
  const hook = metadata.annotations?.['helm.sh/hook'];
  return hook === undefined ? 'Sync' : hook.split(',').flatMap((type) => PHASES[type] ?? [])[0];
}

function weightOf({ metadata }: KubeObject): number {
  return Number(metadata.annotations?.['helm.sh/hook-weight'] ?? 0);
}

function keyOf({ apiVersion, kind, metadata }: KubeObject): string {
  const resource = RESOURCES.find((one) => groupVersionOf(one) === apiVersion && one.kind === kind);
  if (resource === undefined) throw new Error(`the API of the tests has no ${kind} of ${apiVersion}`);
  return `${apiVersion}/${resource.plural}/${metadata.namespace ?? 'agents'}/${metadata.name}`;
}

function withLiveReplicas(cluster: Cluster, object: KubeObject): KubeObject {
  const replicas = cluster.get(keyOf(object))?.spec?.['replicas'];
  if (object.kind !== 'Deployment' || replicas === undefined) return object;
  return { ...object, spec: { ...object.spec, replicas } };
}

async function succeeded(cluster: Cluster, job: KubeObject): Promise<void> {
  const status = await eventually(() => {
    const now = cluster.get(keyOf(job))?.status;
    if (now === undefined) throw new Error(`${job.metadata.name} is not over`);
    return now;
  });
  if (status['succeeded'] !== 1) throw new Error(`${job.metadata.name} failed`);
}
