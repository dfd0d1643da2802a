/** A kind of the API: its plural, and whether its objects live in namespaces. */
export interface ResourceKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  v1: {
    Namespace: 'namespaces',
    Secret: 'secrets',
    ConfigMap: 'configmaps',
    Service: 'services',
    ServiceAccount: 'serviceaccounts',
    Pod: 'pods',
    PersistentVolumeClaim: 'persistentvolumeclaims',
    Event: 'events',
  },
  'apps/v1': { Deployment: 'deployments', ReplicaSet: 'replicasets' },
  'batch/v1': { Job: 'jobs' },
  'autoscaling/v2': { HorizontalPodAutoscaler: 'horizontalpodautoscalers' },
  'policy/v1': { PodDisruptionBudget: 'poddisruptionbudgets' },
  'networking.k8s.io/v1': { NetworkPolicy: 'networkpolicies', Ingress: 'ingresses' },
};

/** What the API serves. */
export const RESOURCES: readonly ResourceKind[] = Object.entries(GROUPS).flatMap(([groupVersion, kinds]) => {
  const [version, group] = groupVersion.split('/').reverse() as [string, string | undefined];
  return Object.entries(kinds).map(([kind, plural]) => ({
    group: group ?? '',
    version,
    kind,
    plural,
    namespaced: kind !== 'Namespace',
  }));
});

/** `apps/v1`, or `v1` for the core group. */
export function groupVersionOf({ group, version }: ResourceKind): string {
  return group === '' ? version : `${group}/${version}`;
}
