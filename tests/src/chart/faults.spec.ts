import { fieldProblems } from './check-objects.js';
import { render } from './helm.js';
import type { KubeObject } from './kubernetes/server-side-apply.js';
import { podSecurityProblems } from './pod-security.js';
import { ruleProblems } from './rules.js';

// Each check fails on the fault it is there for.
let standard: KubeObject[];
let hpa: KubeObject[];
beforeAll(async () => {
  standard = await render('standard');
  hpa = await render('hpa');
});

type Plain = Record<string, unknown>;

/** The value at a path of an object, which the fault then changes. */
function at(objects: KubeObject[], name: string, ...steps: (string | number)[]): Plain {
  const [kind, metadataName] = name.split(' ');
  const object = objects.find((one) => one.kind === kind && one.metadata.name === `dock-codedock-${metadataName}`);
  if (object === undefined) throw new Error(`there is no ${name}`);
  return steps.reduce<unknown>((node, step) => (node as Plain)[step], object) as Plain;
}

const POD = ['spec', 'template', 'spec'] as const;
const CONTAINER = [...POD, 'containers', 0] as const;

describe('strict field validation finds', () => {
  const faults: [string, (objects: KubeObject[]) => void, RegExp][] = [
    [
      'an unknown field of a Deployment',
      (all) => Object.assign(at(all, 'Deployment runner', 'spec'), { replicaz: 2 }),
      /replicaz/,
    ],
    [
      'an unknown field deep inside',
      (all) => Object.assign(at(all, 'Deployment gateway', ...CONTAINER, 'readinessProbe'), { periodSecs: 5 }),
      /periodSecs/,
    ],
    [
      'an unknown field of a budget',
      (all) => Object.assign(at(all, 'PodDisruptionBudget runner', 'spec'), { maxUnavailablee: 1 }),
      /maxUnavailablee/,
    ],
    [
      'a wrong type',
      (all) => Object.assign(at(all, 'Deployment runner', 'spec'), { replicas: '2' }),
      /replicas|integer|number/,
    ],
    [
      'a wrong value',
      (all) => Object.assign(at(all, 'Deployment gateway', ...CONTAINER), { imagePullPolicy: 'Sometimes' }),
      /Sometimes|imagePullPolicy/,
    ],
    [
      'a missing field',
      (all) => {
        delete at(all, 'Deployment gateway', ...CONTAINER)['name'];
      },
      /name/,
    ],
    [
      'a kind that does not exist',
      (all) => Object.assign(at(all, 'PodDisruptionBudget runner'), { apiVersion: 'policy/v1beta9' }),
      /no such kind/,
    ],
  ];

  // All faults in one go: the compiler takes its seconds once.
  it.each(faults.map(([name], index) => [name, index] as const))('%s', async (_, index) => {
    const found = await planted();
    expect(found[index]?.join('\n')).toMatch(faults[index]?.[2] ?? /never/);
  });

  it('nothing in what the chart renders', async () => {
    await planted();
    expect((await fieldProblems(standard)).flat()).toEqual([]);
  });

  let result: Promise<string[][]> | undefined;
  function planted(): Promise<string[][]> {
    result ??= (async () => {
      const changed = faults.map(([, plant]) => {
        const all = structuredClone(standard);
        plant(all);
        const before = new Set(standard.map((object) => JSON.stringify(object)));
        return all.filter((object) => !before.has(JSON.stringify(object)));
      });
      const problems = await fieldProblems(changed.flat());
      let next = 0;
      return changed.map((objects) => objects.flatMap(() => problems[next++] ?? []));
    })();
    return result;
  }
});

describe('the rules find', () => {
  it.each<[string, (objects: KubeObject[]) => void, RegExp]>([
    [
      'a Service that selects nothing',
      (all) =>
        Object.assign(at(all, 'Service gateway', 'spec', 'selector'), { 'app.kubernetes.io/component': 'gatewy' }),
      /Service dock-codedock-gateway selects 0 deployments/,
    ],
    [
      'a Service whose port nobody has',
      (all) => Object.assign(at(all, 'Service gateway', 'spec', 'ports', 0), { targetPort: 'web' }),
      /have no port web/,
    ],
    [
      'a port without a name',
      (all) => {
        delete at(all, 'Deployment runner', ...CONTAINER, 'ports', 0)['name'];
      },
      /port without a name/,
    ],
    [
      'a Deployment that does not select its pods',
      (all) =>
        Object.assign(at(all, 'Deployment runner', 'spec', 'template', 'metadata', 'labels'), {
          'app.kubernetes.io/instance': 'x',
        }),
      /does not select its own pods/,
    ],
    [
      'a missing liveness probe',
      (all) => {
        delete at(all, 'Deployment runner', ...CONTAINER)['livenessProbe'];
      },
      /runner has no liveness probe/,
    ],
    [
      'a missing readiness probe',
      (all) => {
        delete at(all, 'Deployment gateway', ...CONTAINER)['readinessProbe'];
      },
      /gateway has no readiness probe/,
    ],
    [
      'a probe at a port that is not there',
      (all) =>
        Object.assign(at(all, 'Deployment gateway', ...CONTAINER, 'livenessProbe', 'httpGet'), { port: 'https' }),
      /a probe asks at no port https/,
    ],
    ['a budget that lets no node be drained', (all) => budget(all, { minAvailable: 2 }), /wants 2 of 2/],
    ['a budget that lets no pod go', (all) => budget(all, { maxUnavailable: 0 }), /lets no pod go/],
    [
      'a budget about nobody',
      (all) =>
        Object.assign(at(all, 'PodDisruptionBudget runner', 'spec', 'selector', 'matchLabels'), {
          'app.kubernetes.io/component': 'x',
        }),
      /not about exactly one/,
    ],
    [
      'the tag latest',
      (all) => Object.assign(at(all, 'Deployment runner', ...CONTAINER), { image: 'codedock-runner:latest' }),
      /may be another tomorrow/,
    ],
    [
      'an image without a tag',
      (all) => Object.assign(at(all, 'Deployment runner', ...CONTAINER), { image: 'registry:5000/codedock-runner' }),
      /may be another tomorrow/,
    ],
    [
      'missing requests',
      (all) => {
        delete at(all, 'Deployment plugin-host', ...CONTAINER, 'resources')['requests'];
      },
      /requests no cpu or memory/,
    ],
    [
      'a grace period shorter than the drain',
      (all) => Object.assign(at(all, 'Deployment runner', ...POD), { terminationGracePeriodSeconds: 30 }),
      /drains for 25 s and is killed after 30 s/,
    ],
    [
      'a mount without a volume',
      (all) => {
        at(all, 'Deployment runner', ...POD)['volumes'] = [];
      },
      /mounts tmp, which is no volume/,
    ],
    [
      'a Secret that is not there',
      (all) => {
        const index = all.findIndex(({ metadata }) => metadata.name === 'dock-codedock-runner-tls');
        all.splice(index, 1);
      },
      /wants Secret\/dock-codedock-runner-tls, which is not there/,
    ],
    [
      'a hook that runs before its Secret is there',
      (all) => {
        const volumes = at(all, 'Job migrate', ...POD)['volumes'] as object[];
        volumes.push({ name: 'early', secret: { secretName: 'dock-codedock-first-key' } });
      },
      /migrate runs before Secret\/dock-codedock-first-key is there/,
    ],
    [
      'a secret in an argument',
      (all) => Object.assign(at(all, 'Deployment runner', ...CONTAINER), { args: [`--key=${secretIn(all)}`] }),
      /runner shows what is in a Secret/,
    ],
    [
      'a secret in a ConfigMap',
      (all) => Object.assign(at(all, 'ConfigMap plugin-host-plugins', 'data'), { key: secretIn(all) }),
      /plugin-host-plugins shows what is in a Secret/,
    ],
    [
      'a secret in a variable',
      (all) =>
        (at(all, 'Deployment gateway', ...CONTAINER)['env'] as object[]).push({ name: 'X', value: secretIn(all) }),
      /gateway shows what is in a Secret/,
    ],
    [
      'a mounted token',
      (all) => Object.assign(at(all, 'Deployment runner', ...POD), { automountServiceAccountToken: true }),
      /mounts a token/,
    ],
    [
      'the variables of other Services',
      (all) => {
        delete at(all, 'Deployment runner', ...POD)['enableServiceLinks'];
      },
      /takes the variables of Services/,
    ],
    [
      'pods under no policy',
      (all) => {
        const closing = (one: KubeObject) =>
          one.kind === 'NetworkPolicy' && /(default-deny|-runner)$/.test(one.metadata.name);
        all.splice(0, all.length, ...all.filter((one) => !closing(one)));
      },
      /Deployment dock-codedock-runner is under no policy/,
    ],
    [
      'a policy that opens a port where nobody listens',
      (all) => Object.assign(at(all, 'NetworkPolicy plugin-host', 'spec', 'ingress', 0, 'ports', 0), { port: 'rpc' }),
      /opens rpc, where nobody listens/,
    ],
    [
      'a policy that leads to a port where nobody listens',
      (all) => Object.assign(at(all, 'NetworkPolicy plugin-host', 'spec', 'egress', 1, 'ports', 0), { port: 'host' }),
      /leads to host, where nobody listens/,
    ],
    ['an object twice', (all) => all.push(structuredClone(all[0] as KubeObject)), /is there twice/],
  ])('%s', (_, plant, expected) => {
    const objects = structuredClone(standard);
    plant(objects);
    expect(ruleProblems(objects).join('\n')).toMatch(expected);
  });

  it('a fixed count beside an autoscaler', () => {
    const objects = structuredClone(hpa);
    Object.assign(at(objects, 'Deployment runner', 'spec'), { replicas: 4 });
    expect(ruleProblems(objects).join('\n')).toMatch(/runner has a fixed count and HorizontalPodAutoscaler/);
  });

  it('two autoscalers of one deployment', () => {
    const objects = structuredClone(hpa);
    const twin = structuredClone(at(objects, 'HorizontalPodAutoscaler runner')) as unknown as KubeObject;
    twin.metadata.name = 'dock-codedock-twin';
    expect(ruleProblems([...objects, twin]).join('\n')).toMatch(/not the only one that scales/);
  });

  it('an autoscaler of nobody', () => {
    const objects = structuredClone(hpa);
    Object.assign(at(objects, 'HorizontalPodAutoscaler runner', 'spec', 'scaleTargetRef'), {
      name: 'dock-codedock-runer',
    });
    expect(ruleProblems(objects).join('\n')).toMatch(/scales dock-codedock-runer, which is not there/);
  });

  function budget(objects: KubeObject[], change: object): void {
    const spec = at(objects, 'PodDisruptionBudget runner', 'spec');
    delete spec['maxUnavailable'];
    Object.assign(spec, change);
  }

  function secretIn(objects: KubeObject[]): string {
    const data = at(objects, 'Secret first-key', 'data') as Record<string, string>;
    return Buffer.from(data['CODEDOCK_API_KEY'] ?? '', 'base64').toString('utf8');
  }
});

describe('the restricted profile refuses', () => {
  const own = [...CONTAINER, 'securityContext'] as const;
  it.each<[string, (objects: KubeObject[]) => void, RegExp]>([
    [
      'root',
      (all) => Object.assign(at(all, 'Deployment runner', ...POD, 'securityContext'), { runAsNonRoot: false }),
      /may run as root/,
    ],
    ['the user 0', (all) => Object.assign(at(all, 'Deployment runner', ...own), { runAsUser: 0 }), /runs as root/],
    [
      'privileged containers',
      (all) => Object.assign(at(all, 'Deployment runner', ...own), { privileged: true }),
      /is privileged/,
    ],
    [
      'raising privileges',
      (all) => {
        delete at(all, 'Deployment runner', ...own)['allowPrivilegeEscalation'];
      },
      /may raise its privileges/,
    ],
    [
      'capabilities',
      (all) => Object.assign(at(all, 'Deployment runner', ...own), { capabilities: {} }),
      /keeps capabilities/,
    ],
    [
      'no seccomp profile',
      (all) => {
        delete at(all, 'Deployment runner', ...POD, 'securityContext')['seccompProfile'];
      },
      /no seccomp profile/,
    ],
    [
      'a writable root file system',
      (all) => Object.assign(at(all, 'Deployment runner', ...own), { readOnlyRootFilesystem: false }),
      /can write to its root/,
    ],
    [
      "the node's network",
      (all) => Object.assign(at(all, 'Deployment runner', ...POD), { hostNetwork: true }),
      /hostNetwork/,
    ],
    [
      "a folder of the node's",
      (all) => {
        at(all, 'Deployment runner', ...POD)['volumes'] = [{ name: 'x', hostPath: { path: '/' } }];
      },
      /of the kind hostPath/,
    ],
  ])('%s', (_, plant, expected) => {
    const objects = structuredClone(standard);
    plant(objects);
    expect(podSecurityProblems(objects).join('\n')).toMatch(expected);
  });
});
