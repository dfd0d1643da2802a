import type { KubeObject } from './kubernetes/server-side-apply.js';
import { containersOf, nameOf, type PodSpec, podsOf } from './pods.js';

// Volumes of the restricted profile, and images, which are read-only like configMap.
const VOLUMES = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'image',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

/** What the profile "restricted" of the pod security standards would refuse, and a root file system that can be written to. */
export function podSecurityProblems(objects: readonly KubeObject[]): string[] {
  return podsOf(objects).flatMap(({ owner, spec }) =>
    [...podProblems(spec)].map((problem) => `${nameOf(owner)}: ${problem}`),
  );
}

function* podProblems(spec: PodSpec): Generator<string> {
  for (const shared of ['hostNetwork', 'hostPID', 'hostIPC'] as const) {
    if (spec[shared] === true) yield `${shared} is shared with the node`;
  }
  for (const volume of spec.volumes ?? []) {
    const type = Object.keys(volume).find((key) => key !== 'name') ?? 'none';
    if (!VOLUMES.has(type)) yield `volume ${volume['name']} is of the kind ${type}`;
  }
  const pod = spec.securityContext ?? {};
  for (const { name, securityContext: own = {} } of containersOf(spec)) {
    if ((own.runAsNonRoot ?? pod.runAsNonRoot) !== true) yield `${name}: may run as root`;
    if ((own.runAsUser ?? pod.runAsUser) === 0) yield `${name}: runs as root`;
    if (own.privileged === true) yield `${name}: is privileged`;
    if (own.allowPrivilegeEscalation !== false) yield `${name}: may raise its privileges`;
    if (!(own.capabilities?.drop ?? []).includes('ALL')) yield `${name}: keeps capabilities`;
    if ((own.capabilities?.add ?? []).some((one) => one !== 'NET_BIND_SERVICE')) yield `${name}: adds capabilities`;
    const profile = (own.seccompProfile ?? pod.seccompProfile)?.type;
    if (profile !== 'RuntimeDefault' && profile !== 'Localhost') yield `${name}: has no seccomp profile`;
    if (own.readOnlyRootFilesystem !== true) yield `${name}: can write to its root file system`;
  }
}
