import type { KubeObject } from './kubernetes/server-side-apply.js';
import { type Container, containersOf, nameOf, type PodOf, podsOf, selects } from './pods.js';

type Labels = Record<string, string>;
type Rule = (objects: readonly KubeObject[]) => Iterable<string>;

/** What is wrong with the objects of a release together, though each alone is valid. Empty: nothing. */
export function ruleProblems(objects: readonly KubeObject[]): string[] {
  return RULES.flatMap((rule) => [...rule(objects)]);
}

const RULES: readonly Rule[] = [
  identities,
  selectors,
  services,
  counts,
  budgets,
  containers,
  gracePeriods,
  references,
  hookOrder,
  secrecy,
  networkPolicies,
  entrances,
];

function ofKind(objects: readonly KubeObject[], kind: string): KubeObject[] {
  return objects.filter((object) => object.kind === kind);
}

function specOf<T>(object: KubeObject): T {
  return object.spec as unknown as T;
}

function* identities(objects: readonly KubeObject[]): Generator<string> {
  const seen = new Set<string>();
  for (const object of objects) {
    const { name, namespace } = object.metadata;
    const id = `${object.kind}/${name}`;
    if (seen.has(id)) yield `${nameOf(object)} is there twice`;
    seen.add(id);
    if (name.length > 63) yield `${nameOf(object)}: the name is longer than 63`;
    if (isExtra(object)) continue;
    if (namespace !== 'agents') yield `${nameOf(object)} is not in the namespace of the release`;
    for (const label of ['name', 'instance', 'component', 'managed-by']) {
      if (object.metadata.labels?.[`app.kubernetes.io/${label}`] === undefined) {
        yield `${nameOf(object)} has no label app.kubernetes.io/${label}`;
      }
    }
  }
}

/** Objects of the user's own. */
function isExtra({ metadata }: KubeObject): boolean {
  return metadata.labels === undefined;
}

function* selectors(objects: readonly KubeObject[]): Generator<string> {
  const pods = podsOf(objects).filter(({ owner }) => owner.kind === 'Deployment');
  for (const { owner, labels } of pods) {
    const { matchLabels } = specOf<{ selector: { matchLabels: Labels } }>(owner).selector;
    if (!selects(matchLabels, labels)) yield `${nameOf(owner)} does not select its own pods`;
    const others = pods.filter((pod) => pod.owner !== owner && selects(matchLabels, pod.labels));
    for (const other of others) yield `${nameOf(owner)} also selects the pods of ${nameOf(other.owner)}`;
  }
}

function* services(objects: readonly KubeObject[]): Generator<string> {
  for (const service of ofKind(objects, 'Service')) {
    const { selector, ports } = specOf<{ selector: Labels; ports: { name?: string; targetPort: string }[] }>(service);
    const pods = podsOf(objects).filter(
      ({ owner, labels }) => owner.kind === 'Deployment' && selects(selector, labels),
    );
    if (pods.length !== 1) yield `${nameOf(service)} selects ${pods.length} deployments`;
    for (const port of ports) {
      if (port.name === undefined) yield `${nameOf(service)} has a port without a name`;
      const open = pods.flatMap(({ spec }) => spec.containers).flatMap((one) => one.ports ?? []);
      if (!open.some(({ name }) => name === port.targetPort)) {
        yield `${nameOf(service)}: its pods have no port ${port.targetPort}`;
      }
    }
  }
}

interface Scaler {
  readonly object: KubeObject;
  readonly target: string;
  readonly fewest: number;
  readonly most: number;
}

function scalersOf(objects: readonly KubeObject[]): Scaler[] {
  const native = ofKind(objects, 'HorizontalPodAutoscaler').map((object) => {
    const spec = specOf<{ scaleTargetRef: { name: string }; minReplicas: number; maxReplicas: number }>(object);
    return { object, target: spec.scaleTargetRef.name, fewest: spec.minReplicas, most: spec.maxReplicas };
  });
  const keda = ofKind(objects, 'ScaledObject').map((object) => {
    const spec = specOf<{ scaleTargetRef: { name: string }; minReplicaCount: number; maxReplicaCount: number }>(object);
    return { object, target: spec.scaleTargetRef.name, fewest: spec.minReplicaCount, most: spec.maxReplicaCount };
  });
  return [...native, ...keda];
}

function* counts(objects: readonly KubeObject[]): Generator<string> {
  const scalers = scalersOf(objects);
  for (const { object, target, fewest, most } of scalers) {
    const deployment = ofKind(objects, 'Deployment').find(({ metadata }) => metadata.name === target);
    if (deployment === undefined) yield `${nameOf(object)} scales ${target}, which is not there`;
    else if (deployment.spec?.['replicas'] !== undefined) {
      yield `${nameOf(deployment)} has a fixed count and ${nameOf(object)}`;
    }
    if (scalers.some((other) => other.object !== object && other.target === target)) {
      yield `${nameOf(object)} is not the only one that scales ${target}`;
    }
    if (fewest > most) yield `${nameOf(object)}: the fewest are more than the most`;
  }
  for (const deployment of ofKind(objects, 'Deployment')) {
    const scaled = scalers.some(({ target }) => target === deployment.metadata.name);
    if (!scaled && deployment.spec?.['replicas'] === undefined) yield `${nameOf(deployment)} has no count`;
  }
}

function* budgets(objects: readonly KubeObject[]): Generator<string> {
  for (const budget of ofKind(objects, 'PodDisruptionBudget')) {
    const { selector, minAvailable, maxUnavailable } = specOf<{
      selector: { matchLabels: Labels };
      minAvailable?: number;
      maxUnavailable?: number | string;
    }>(budget);
    const [pod, ...more] = podsOf(objects).filter(({ labels }) => selects(selector.matchLabels, labels));
    if (pod === undefined || more.length > 0) {
      yield `${nameOf(budget)} is not about exactly one deployment`;
      continue;
    }
    const scaler = scalersOf(objects).find(({ target }) => target === pod.owner.metadata.name);
    const fewest = scaler?.fewest ?? Number(pod.owner.spec?.['replicas']);
    if (minAvailable !== undefined && minAvailable >= fewest) {
      yield `${nameOf(budget)} wants ${minAvailable} of ${fewest}: no node could be drained`;
    }
    if (maxUnavailable === 0 || maxUnavailable === '0%') yield `${nameOf(budget)} lets no pod go`;
  }
}

function* containers(objects: readonly KubeObject[]): Generator<string> {
  for (const { owner, spec } of podsOf(objects)) {
    const at = (container: Container) => `${nameOf(owner)}, container ${container.name}`;
    if (spec.automountServiceAccountToken !== false) yield `${nameOf(owner)} mounts a token`;
    if (spec.enableServiceLinks !== false) yield `${nameOf(owner)} takes the variables of Services`;
    const volumes = new Set((spec.volumes ?? []).map(({ name }) => name));
    const names = spec.containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name));
    if (new Set(names).size !== names.length) yield `${nameOf(owner)} has two ports of one name`;
    for (const container of containersOf(spec)) {
      const { image, resources, ports = [], volumeMounts = [] } = container;
      const tag = /@sha256:[0-9a-f]{64}$/.test(image) ? 'digest' : /:([^/:]+)$/.exec(image)?.[1];
      if (tag === undefined || tag === 'latest') yield `${at(container)}: the image ${image} may be another tomorrow`;
      if (resources?.requests?.['cpu'] === undefined || resources.requests['memory'] === undefined) {
        yield `${at(container)} requests no cpu or memory`;
      }
      if (resources?.limits?.['memory'] === undefined) yield `${at(container)} has no limit of memory`;
      if (ports.some(({ name }) => name === undefined)) yield `${at(container)} has a port without a name`;
      for (const { name } of volumeMounts) {
        if (!volumes.has(name)) yield `${at(container)} mounts ${name}, which is no volume`;
      }
    }
    if (owner.kind === 'Deployment') for (const container of spec.containers) yield* probes(container, at(container));
  }
}

function* probes(container: Container, at: string): Generator<string> {
  const { livenessProbe, readinessProbe, startupProbe, ports = [] } = container;
  if (livenessProbe === undefined) yield `${at} has no liveness probe`;
  if (readinessProbe === undefined) yield `${at} has no readiness probe`;
  for (const probe of [livenessProbe, readinessProbe, startupProbe]) {
    const port = probe?.httpGet?.port ?? probe?.tcpSocket?.port;
    if (typeof port === 'string' && !ports.some(({ name }) => name === port))
      yield `${at}: a probe asks at no port ${port}`;
  }
}

/** Seconds the programs allow themselves beside the drain. */
const CLOSING_SECONDS = 10;
const GATEWAY_SECONDS = 30;

function* gracePeriods(objects: readonly KubeObject[]): Generator<string> {
  for (const { owner, spec, labels } of podsOf(objects)) {
    const grace = spec.terminationGracePeriodSeconds ?? 30;
    const component = labels['app.kubernetes.io/component'];
    if (component === 'runner') {
      const env = new Map(spec.containers[0]?.env?.map(({ name, value }) => [name, Number.parseInt(value ?? '', 10)]));
      const drain = env.get('RUNNER_DRAIN_TIMEOUT') ?? Number.NaN;
      if (!(grace > drain + CLOSING_SECONDS))
        yield `${nameOf(owner)} drains for ${drain} s and is killed after ${grace} s`;
      if (env.get('CODEDOCK_GRACE_PERIOD') !== grace) yield `${nameOf(owner)} is told another grace period than it has`;
    }
    if (component === 'gateway' && grace < GATEWAY_SECONDS + CLOSING_SECONDS / 2) {
      yield `${nameOf(owner)} is killed after ${grace} s`;
    }
  }
}

function* references(objects: readonly KubeObject[]): Generator<string> {
  const made = new Set(objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
  for (const certificate of ofKind(objects, 'Certificate')) {
    made.add(`Secret/${specOf<{ secretName: string }>(certificate).secretName}`);
  }
  for (const { owner, spec } of podsOf(objects)) {
    const wanted = [...referencesOf(spec)].filter((reference) => /\/dock-/.test(reference));
    for (const reference of wanted)
      if (!made.has(reference)) yield `${nameOf(owner)} wants ${reference}, which is not there`;
  }
  for (const scaled of ofKind(objects, 'ScaledObject')) {
    for (const { authenticationRef } of specOf<{ triggers: { authenticationRef?: { name: string } }[] }>(scaled)
      .triggers) {
      const name = authenticationRef?.name;
      if (name?.startsWith('dock-') && !made.has(`TriggerAuthentication/${name}`)) {
        yield `${nameOf(scaled)} wants TriggerAuthentication/${name}, which is not there`;
      }
    }
  }
}

function* referencesOf(spec: object): Generator<string> {
  const visit = function* (value: unknown, key: string): Generator<string> {
    if (typeof value !== 'object' || value === null) return;
    const { name, secretName, claimName } = value as Record<string, unknown>;
    if (key === 'secret' && typeof (secretName ?? name) === 'string') yield `Secret/${secretName ?? name}`;
    if (key === 'secretKeyRef') yield `Secret/${name}`;
    if (key === 'configMap' || key === 'configMapRef') yield `ConfigMap/${name}`;
    if (key === 'persistentVolumeClaim') yield `PersistentVolumeClaim/${claimName}`;
    for (const [inner, one] of Object.entries(value)) yield* visit(one, Array.isArray(value) ? key : inner);
  };
  yield* visit(spec, '');
  const { serviceAccountName } = spec as { serviceAccountName?: string };
  if (serviceAccountName !== undefined) yield `ServiceAccount/${serviceAccountName}`;
}

/** A hook before the install finds nothing of the release but hooks with a lower weight. */
function* hookOrder(objects: readonly KubeObject[]): Generator<string> {
  const hooksOf = ({ metadata }: KubeObject) => metadata.annotations?.['helm.sh/hook'] ?? '';
  const weightOf = ({ metadata }: KubeObject) => Number(metadata.annotations?.['helm.sh/hook-weight'] ?? 0);
  for (const { owner, spec } of podsOf(objects).filter((pod) => hooksOf(pod.owner).includes('pre-install'))) {
    for (const reference of referencesOf(spec)) {
      const target = objects.find(({ kind, metadata }) => `${kind}/${metadata.name}` === reference);
      if (target === undefined) continue;
      if (!hooksOf(target).includes('pre-install') || weightOf(target) >= weightOf(owner)) {
        yield `${nameOf(owner)} runs before ${reference} is there`;
      }
    }
  }
}

/** What is in a Secret of the release is nowhere else in it. */
function* secrecy(objects: readonly KubeObject[]): Generator<string> {
  const secrets = new Set<string>();
  for (const secret of ofKind(objects, 'Secret') as (KubeObject & { stringData?: Labels })[]) {
    for (const text of Object.values(secret.stringData ?? {})) secrets.add(text);
    for (const [name, value] of Object.entries(secret.data ?? {})) {
      if (!name.endsWith('.crt')) secrets.add(Buffer.from(value, 'base64').toString('utf8').trim());
    }
  }
  for (const object of objects.filter(({ kind }) => kind !== 'Secret')) {
    const text = JSON.stringify(object);
    for (const secret of secrets) {
      if (text.includes(JSON.stringify(secret).slice(1, -1)) || text.includes(Buffer.from(secret).toString('base64'))) {
        yield `${nameOf(object)} shows what is in a Secret`;
      }
    }
  }
}

interface Policy {
  readonly podSelector: { readonly matchLabels: Labels };
  readonly policyTypes: readonly string[];
  readonly ingress?: readonly {
    readonly from?: readonly object[];
    readonly ports?: readonly { port: string | number }[];
  }[];
  readonly egress?: readonly {
    readonly to?: readonly object[];
    readonly ports?: readonly { port: string | number }[];
  }[];
}

function* networkPolicies(objects: readonly KubeObject[]): Generator<string> {
  const policies = ofKind(objects, 'NetworkPolicy');
  if (policies.length === 0) return;
  const pods = podsOf(objects);
  const portsOf = (some: readonly PodOf[]) =>
    new Set(some.flatMap(({ spec }) => spec.containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name))));
  const selectedBy = (selector: { matchLabels: Labels }) =>
    pods.filter(({ labels }) => selects(selector.matchLabels, labels));
  for (const { owner, labels } of pods) {
    const denying = policies
      .map((one) => specOf<Policy>(one))
      .filter((policy) => selects(policy.podSelector.matchLabels, labels));
    const closed = (type: string) => denying.some(({ policyTypes }) => policyTypes.includes(type));
    if (!closed('Ingress') || !closed('Egress')) yield `${nameOf(owner)} is under no policy`;
  }
  for (const policy of policies) {
    const { podSelector, ingress = [], egress = [] } = specOf<Policy>(policy);
    const own = portsOf(selectedBy(podSelector));
    for (const { ports = [] } of ingress) {
      for (const { port } of ports)
        if (!own.has(String(port))) yield `${nameOf(policy)} opens ${port}, where nobody listens`;
    }
    for (const { to = [], ports = [] } of egress) {
      for (const peer of to as { podSelector?: { matchLabels: Labels } }[]) {
        if (peer.podSelector === undefined) continue;
        const there = portsOf(selectedBy(peer.podSelector));
        for (const { port } of ports)
          if (!there.has(String(port))) yield `${nameOf(policy)} leads to ${port}, where nobody listens`;
      }
    }
  }
}

function* entrances(objects: readonly KubeObject[]): Generator<string> {
  const listed = ofKind(objects, 'Service');
  const portsOf = (name: string) =>
    listed
      .filter(({ metadata }) => metadata.name === name)
      .flatMap((service) => specOf<{ ports: { name: string; port: number }[] }>(service).ports);
  for (const monitor of ofKind(objects, 'ServiceMonitor')) {
    const { selector, endpoints } = specOf<{ selector: { matchLabels: Labels }; endpoints: { port: string }[] }>(
      monitor,
    );
    const found = listed.filter(({ metadata }) => selects(selector.matchLabels, metadata.labels ?? {}));
    if (found.length !== 1) yield `${nameOf(monitor)} selects ${found.length} services`;
    for (const { port } of endpoints) {
      if (!found.some(({ metadata }) => portsOf(metadata.name).some(({ name }) => name === port))) {
        yield `${nameOf(monitor)}: its service has no port ${port}`;
      }
    }
  }
  for (const ingress of ofKind(objects, 'Ingress')) {
    type Paths = { http: { paths: { backend: { service: { name: string; port: { name: string } } } }[] } }[];
    for (const { backend } of specOf<{ rules: Paths }>(ingress).rules.flatMap(({ http }) => http.paths)) {
      const { name, port } = backend.service;
      if (!portsOf(name).some((one) => one.name === port.name)) yield `${nameOf(ingress)} leads nowhere`;
    }
  }
  for (const route of ofKind(objects, 'HTTPRoute')) {
    const { rules } = specOf<{ rules: { backendRefs: { name: string; port: number }[] }[] }>(route);
    for (const { name, port } of rules.flatMap(({ backendRefs }) => backendRefs)) {
      if (!portsOf(name).some((one) => one.port === port)) yield `${nameOf(route)} leads nowhere`;
    }
  }
}
