import { randomUUID } from 'node:crypto';
import { applied, type Json, type KubeObject, updated, type Writer } from './server-side-apply.js';

/** A change that watchers are told. */
export interface Change {
  readonly revision: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly key: string;
  readonly object: KubeObject;
}

const CONTROLLER: Writer = { manager: 'kube-controller-manager', operation: 'Update', subresource: 'scale' };

/**
 * The objects of a cluster, and as much of its controllers as a release can see: Deployments become available or not,
 * Jobs and Pods end well or not, an autoscaler keeps its fewest replicas. Nothing is scheduled and nothing runs.
 */
export class Cluster {
  /** Names of Deployments, Jobs and Pods that fail. */
  readonly failing = new Set<string>();

  private readonly objects = new Map<string, KubeObject>();
  private readonly changes: Change[] = [];
  private readonly listeners = new Set<(change: Change) => void>();
  private revision = 1;

  /** Newest revision. */
  get newest(): number {
    return this.revision;
  }

  get(key: string): KubeObject | undefined {
    return this.objects.get(key);
  }

  /** Objects whose key begins so, with their keys. */
  list(prefix: string): (readonly [string, KubeObject])[] {
    return [...this.objects].filter(([key]) => key.startsWith(prefix));
  }

  /** Changes after a revision, then all later ones; the function returned ends that. */
  follow(after: number, listener: (change: Change) => void): () => void {
    for (const change of this.changes) if (change.revision > after) listener(change);
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** What an apply would store, and unless it is a dry run, stores. @throws ApplyConflict */
  apply(
    key: string,
    sent: KubeObject,
    writer: Writer,
    { force, dryRun }: { force: boolean; dryRun: boolean },
  ): KubeObject {
    const live = this.objects.get(key);
    const bare: KubeObject = { apiVersion: sent.apiVersion, kind: sent.kind, metadata: identity(sent) };
    const next = withDefaults(applied(live ?? bare, sent, writer, force));
    return dryRun ? next : this.put(key, next);
  }

  /** The same for every other write. */
  update(key: string, next: KubeObject, writer: Writer, { dryRun }: { dryRun: boolean }): KubeObject {
    const stored = withDefaults(updated(this.objects.get(key), next, writer));
    return dryRun ? stored : this.put(key, stored);
  }

  delete(key: string): void {
    const object = this.objects.get(key);
    if (object === undefined) return;
    this.objects.delete(key);
    this.tell('DELETED', key, object);
  }

  /** What an autoscaler does: sets the count through the scale subresource. */
  scale(key: string, replicas: number): void {
    const live = this.objects.get(key);
    if (live === undefined) throw new Error(`there is no ${key} to scale`);
    this.put(key, updated(live, { ...structuredClone(live), spec: { ...live.spec, replicas } }, CONTROLLER));
  }

  private put(key: string, object: KubeObject): KubeObject {
    const live = this.objects.get(key);
    const unchanged = live !== undefined && JSON.stringify(content(live)) === JSON.stringify(content(object));
    const stored: KubeObject = {
      ...object,
      metadata: {
        ...object.metadata,
        uid: live?.metadata.uid ?? randomUUID(),
        creationTimestamp: live?.metadata.creationTimestamp ?? '2030-01-01T00:00:00Z',
        generation: (live?.metadata.generation ?? 0) + (unchanged ? 0 : 1),
        resourceVersion: String(this.revision + 1),
      },
    };
    this.objects.set(key, stored);
    this.tell(live === undefined ? 'ADDED' : 'MODIFIED', key, stored);
    setImmediate(() => this.control(key));
    return stored;
  }

  private control(key: string): void {
    const object = this.objects.get(key);
    if (object === undefined) return;
    if (object.kind === 'HorizontalPodAutoscaler') this.keepFewest(object);
    if (object.kind === 'Deployment') {
      for (const [, scaler] of this.list('autoscaling/v2/horizontalpodautoscalers/')) this.keepFewest(scaler);
    }
    const now = this.objects.get(key);
    const status = now === undefined ? undefined : statusOf(now, this.failing.has(now.metadata.name));
    if (now === undefined || status === undefined || JSON.stringify(status) === JSON.stringify(now.status)) return;
    const stored = { ...now, status, metadata: { ...now.metadata, resourceVersion: String(this.revision + 1) } };
    this.objects.set(key, stored);
    this.tell('MODIFIED', key, stored);
  }

  private keepFewest(scaler: KubeObject): void {
    const { scaleTargetRef, minReplicas } = scaler.spec as { scaleTargetRef: { name: string }; minReplicas: number };
    const key = `apps/v1/deployments/${scaler.metadata.namespace}/${scaleTargetRef.name}`;
    const target = this.objects.get(key);
    if (target !== undefined && Number(target.spec?.['replicas']) < minReplicas) this.scale(key, minReplicas);
  }

  private tell(type: Change['type'], key: string, object: KubeObject): void {
    this.revision += 1;
    const change = { revision: this.revision, type, key, object };
    this.changes.push(change);
    for (const listener of this.listeners) listener(change);
  }
}

function identity({ metadata: { name, namespace } }: KubeObject): KubeObject['metadata'] {
  return namespace === undefined ? { name } : { name, namespace };
}

function content({ spec, data, metadata }: KubeObject): unknown {
  return { spec, data, labels: metadata.labels, annotations: metadata.annotations };
}

function withDefaults(object: KubeObject): KubeObject {
  const { stringData, ...rest } = object as KubeObject & { stringData?: Record<string, string> };
  if (stringData !== undefined) {
    const encoded = Object.entries(stringData).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
    return { ...rest, data: { ...rest.data, ...Object.fromEntries(encoded) } };
  }
  if (object.kind === 'Deployment')
    return { ...object, spec: { ...object.spec, replicas: object.spec?.['replicas'] ?? 1 } };
  return object;
}

function statusOf({ kind, spec, metadata }: KubeObject, fails: boolean): { [key: string]: Json } | undefined {
  const condition = (type: string, status: string, reason: string) => ({ type, status, reason });
  if (kind === 'Deployment') {
    const replicas = Number(spec?.['replicas']);
    const seen = { observedGeneration: metadata.generation ?? 0, replicas, updatedReplicas: replicas };
    return fails
      ? {
          ...seen,
          unavailableReplicas: replicas,
          conditions: [condition('Progressing', 'False', 'ProgressDeadlineExceeded')],
        }
      : {
          ...seen,
          readyReplicas: replicas,
          availableReplicas: replicas,
          conditions: [
            condition('Available', 'True', 'MinimumReplicasAvailable'),
            condition('Progressing', 'True', 'NewReplicaSetAvailable'),
          ],
        };
  }
  if (kind === 'Job') {
    return fails
      ? { failed: 1, conditions: [condition('Failed', 'True', 'BackoffLimitExceeded')] }
      : { succeeded: 1, conditions: [condition('Complete', 'True', 'Completed')] };
  }
  if (kind === 'Pod') return { phase: fails ? 'Failed' : 'Succeeded' };
  if (kind === 'PersistentVolumeClaim') return { phase: 'Bound' };
  if (kind === 'PodDisruptionBudget') {
    return {
      observedGeneration: metadata.generation ?? 0,
      disruptionsAllowed: 1,
      currentHealthy: 2,
      desiredHealthy: 1,
      expectedPods: 2,
    };
  }
  return undefined;
}
