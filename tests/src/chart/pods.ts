import type { KubeObject } from './kubernetes/server-side-apply.js';

/** A container as far as the rules look at it. */
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly resources?: { readonly requests?: Record<string, string>; readonly limits?: Record<string, string> };
  readonly volumeMounts?: readonly { readonly name: string }[];
  readonly securityContext?: {
    readonly allowPrivilegeEscalation?: boolean;
    readonly privileged?: boolean;
    readonly readOnlyRootFilesystem?: boolean;
    readonly runAsNonRoot?: boolean;
    readonly runAsUser?: number;
    readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
    readonly seccompProfile?: { readonly type: string };
  };
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
}

interface Probe {
  readonly httpGet?: { readonly port: string | number };
  readonly tcpSocket?: { readonly port: string | number };
}

/** A pod's specification as far as the rules look at it. */
export interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes?: readonly Record<string, unknown>[];
  readonly automountServiceAccountToken?: boolean;
  readonly enableServiceLinks?: boolean;
  readonly serviceAccountName?: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly securityContext?: {
    readonly runAsNonRoot?: boolean;
    readonly runAsUser?: number;
    readonly seccompProfile?: { readonly type: string };
  };
}

/** A pod that an object makes, or is. */
export interface PodOf {
  readonly owner: KubeObject;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
}

/** The pods of Deployments, Jobs and Pods. */
export function podsOf(objects: readonly KubeObject[]): PodOf[] {
  return objects.flatMap((owner) => {
    if (owner.kind === 'Pod') {
      return [{ owner, labels: owner.metadata.labels ?? {}, spec: owner.spec as unknown as PodSpec }];
    }
    if (owner.kind !== 'Deployment' && owner.kind !== 'Job') return [];
    const { template } = owner.spec as unknown as {
      template: { metadata: { labels: Record<string, string> }; spec: PodSpec };
    };
    return [{ owner, labels: template.metadata.labels, spec: template.spec }];
  });
}

/** Init containers and containers. */
export function containersOf({ containers, initContainers = [] }: PodSpec): Container[] {
  return [...initContainers, ...containers];
}

/** True when the labels hold everything that is selected by. */
export function selects(selector: Readonly<Record<string, string>>, labels: Readonly<Record<string, string>>): boolean {
  return Object.entries(selector).every(([name, value]) => labels[name] === value);
}

/** `Deployment dock-codedock-runner`. */
export function nameOf({ kind, metadata }: KubeObject): string {
  return `${kind} ${metadata.name}`;
}
