import { sync } from './gitops.js';
import { template } from './helm.js';
import { Cluster } from './kubernetes/cluster.js';

// What a GitOps tool gets that renders without a cluster, and what its order of hooks makes of it.
const GIVEN = 'existing-secrets';
const fixed = (replicas: number) => ['--set', `runner.scaling.replicas=${replicas}`];
const HPA = ['--set', 'runner.scaling.mode=hpa', '--set', 'runner.scaling.minReplicas=3'];
const DEPLOYMENTS = 'apps/v1/deployments/agents/';
const RUNNER = `${DEPLOYMENTS}dock-codedock-runner`;

const rendered = async (mode: string, ...args: string[]) => {
  const { code, stdout, stderr } = await template(mode, { args });
  expect({ code, stderr }).toEqual({ code: 0, stderr });
  return stdout;
};

it.each([
  ['every Secret given', GIVEN, []],
  ['certificates by cert-manager, no first key', 'cert-manager', ['--set', 'firstKey.enabled=false']],
])('renders the same each time: %s', async (_, mode, args) => {
  expect(await rendered(mode, ...args)).toBe(await rendered(mode, ...args));
});

it.each([
  ['keys', ['--set', 'keys.existingSecret=']],
  ['the first key', ['--set', 'firstKey.existingSecret=']],
  ['certificates', ['--set', 'tls.mode=generated']],
])('makes %s anew each time where they are not given', async (_, args) => {
  expect(await rendered(GIVEN, ...args)).not.toBe(await rendered(GIVEN, ...args));
});

describe('a sync', () => {
  let cluster: Cluster;
  beforeEach(() => {
    cluster = new Cluster();
  });
  const replicas = () => cluster.get(RUNNER)?.spec?.['replicas'];
  const generations = () => cluster.list(DEPLOYMENTS).map(([key, { metadata }]) => [key, metadata.generation]);

  it('migrates before everything else, makes the first key known after it, and takes its Jobs back', async () => {
    const written = await sync(cluster, GIVEN);
    expect(written[0]).toBe('Job dock-codedock-migrate');
    expect(written.at(-1)).toBe('Job dock-codedock-first-key');
    expect(written.filter((one) => one.startsWith('Deployment')).sort()).toEqual([
      'Deployment dock-codedock-gateway',
      'Deployment dock-codedock-plugin-host',
      'Deployment dock-codedock-runner',
    ]);
    expect(cluster.list('batch/v1/jobs/')).toEqual([]);
    expect(cluster.list('v1/pods/')).toEqual([]);
  });

  it('changes nothing the second time', async () => {
    await sync(cluster, GIVEN);
    const before = generations();
    await sync(cluster, GIVEN);
    expect(generations()).toEqual(before);
  });

  it('leaves the version that runs alone when migrations fail', async () => {
    await sync(cluster, GIVEN);
    const before = generations();
    cluster.failing.add('dock-codedock-migrate');
    await expect(sync(cluster, GIVEN, { args: ['--set', 'image.tag=9.9.9'] })).rejects.toThrow('migrate failed');
    expect(generations()).toEqual(before);
  });

  it('leaves the count to an autoscaler that was there from the beginning', async () => {
    await sync(cluster, GIVEN, { args: HPA });
    cluster.scale(RUNNER, 9);
    await sync(cluster, GIVEN, { args: [...HPA, '--set', 'image.tag=9.9.9'] });
    expect(replicas()).toBe(9);
  });

  it('takes a fixed count to one when an autoscaler comes and the count is not ignored', async () => {
    await sync(cluster, GIVEN, { args: fixed(5) });
    const counts: unknown[] = [];
    const stop = cluster.follow(cluster.newest, ({ key, object }) => {
      if (key === RUNNER) counts.push(object.spec?.['replicas']);
    });
    await sync(cluster, GIVEN, { args: HPA });
    stop();
    expect(counts).toContain(1);
  });

  it('keeps a fixed count when an autoscaler comes and the count is ignored until it has counted', async () => {
    await sync(cluster, GIVEN, { args: fixed(5) });
    const counts: unknown[] = [];
    const stop = cluster.follow(cluster.newest, ({ key, object }) => {
      if (key === RUNNER) counts.push(object.spec?.['replicas']);
    });
    await sync(cluster, GIVEN, { args: HPA, ignoreReplicas: true });
    expect(replicas()).toBe(5);
    cluster.scale(RUNNER, 9);
    await sync(cluster, GIVEN, { args: HPA, ignoreReplicas: true });
    expect(replicas()).toBe(9);
    await sync(cluster, GIVEN, { args: HPA });
    expect(replicas()).toBe(9);
    stop();
    expect(counts).not.toContain(1);
  });

  it('takes the count back from an autoscaler', async () => {
    await sync(cluster, GIVEN, { args: HPA });
    cluster.scale(RUNNER, 9);
    await sync(cluster, GIVEN, { args: fixed(4) });
    expect(replicas()).toBe(4);
  });
});
