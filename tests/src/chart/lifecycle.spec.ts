import { chart, type Ended, type HelmHome, helm, helmHome, valuesOf } from './helm.js';
import { type ApiServer, startApiServer } from './kubernetes/api-server.js';
import type { KubeObject } from './kubernetes/server-side-apply.js';

// Real helm against an API server in memory: what a release does with objects, hooks and fields that others own.
describe('a release', () => {
  let api: ApiServer;
  let home: HelmHome;

  beforeEach(async () => {
    api = await startApiServer();
    home = helmHome(api.url);
  });
  afterEach(async () => {
    home.remove();
    await api.close();
  });

  const run = (...args: string[]): Promise<Ended> => helm([...args, '--namespace', 'agents'], home.env);
  const install = (...args: string[]) =>
    run('install', 'dock', chart, '-f', valuesOf('standard'), '--wait', '--timeout', '60s', ...args);
  const upgrade = (...args: string[]) =>
    run('upgrade', 'dock', chart, '-f', valuesOf('standard'), '--wait', '--timeout', '60s', ...args);
  const named = (groupVersion: string, plural: string, name: string): KubeObject | undefined =>
    api.cluster.get(`${groupVersion}/${plural}/agents/${name}`);
  const runner = () => named('apps/v1', 'deployments', 'dock-codedock-runner');
  const secret = (name: string) => named('v1', 'secrets', `dock-codedock-${name}`)?.data;
  const hpa = ['--set', 'runner.scaling.mode=hpa', '--set', 'runner.scaling.minReplicas=3'];
  const fixed = (replicas: number) => ['--set', `runner.scaling.replicas=${replicas}`];

  function succeeded({ code, stdout, stderr }: Ended): string {
    expect({ code, stderr }).toEqual({ code: 0, stderr });
    return stdout;
  }

  it('installs, tests, upgrades, rolls back and goes, and keeps keys and certificates all the while', async () => {
    const notes = succeeded(await install('--set', 'keys.existingSecret='));
    expect(notes).toContain('helm test dock -n agents --logs');
    expect(runner()?.spec?.['replicas']).toBe(2);
    // Hooks that have done their work are gone.
    expect(api.cluster.list('batch/v1/jobs/')).toEqual([]);
    const kept = ['keys', 'first-key', 'gateway-tls', 'plugin-host-tls'].map((name) => [name, secret(name)] as const);
    for (const [, data] of kept) expect(Object.keys(data ?? {}).length).toBeGreaterThan(0);
    expect(secret('gateway-tls')?.['ca.crt']).toBe(secret('runner-tls')?.['ca.crt']);

    expect(succeeded(await run('test', 'dock', '--logs'))).toContain('a line of the log');

    succeeded(await upgrade('--set', 'keys.existingSecret=', ...fixed(4)));
    expect(runner()?.spec?.['replicas']).toBe(4);
    for (const [name, data] of kept) expect([name, secret(name)]).toEqual([name, data]);

    succeeded(await run('rollback', 'dock', '1', '--wait'));
    expect(runner()?.spec?.['replicas']).toBe(2);
    for (const [name, data] of kept) expect([name, secret(name)]).toEqual([name, data]);

    succeeded(await run('uninstall', 'dock', '--wait'));
    expect(runner()).toBeUndefined();
    // Whoever installs again reads the secrets of the plugins again.
    expect(secret('keys')).toEqual(kept[0]?.[1]);
    expect(secret('gateway-tls')).toBeUndefined();
    succeeded(await install('--set', 'keys.existingSecret='));
    expect(secret('keys')).toEqual(kept[0]?.[1]);
  });

  it('gives URLs that came by value to the migrations, before anything else is there, and takes them back', async () => {
    const order: string[] = [];
    const stop = api.cluster.follow(api.cluster.newest, ({ type, key }) => {
      if (/(secrets|jobs|deployments)\/agents\/dock-codedock-(migrate|gateway)$/.test(key) && type !== 'MODIFIED') {
        order.push(`${type} ${key.split('/').at(-3)} ${key.split('/').at(-1)}`);
      }
    });
    succeeded(await run('install', 'dock', chart, '-f', valuesOf('minimal'), '--wait', '--timeout', '60s'));
    stop();
    expect(order).toEqual([
      'ADDED secrets dock-codedock-migrate',
      'ADDED jobs dock-codedock-migrate',
      expect.stringMatching(/^DELETED (jobs|secrets)/),
      expect.stringMatching(/^DELETED (jobs|secrets)/),
      'ADDED deployments dock-codedock-gateway',
    ]);
  });

  it('does not start the new version when migrations fail', async () => {
    api.cluster.failing.add('dock-codedock-migrate');
    const failed = await install();
    expect(failed.code).not.toBe(0);
    expect(failed.stderr).toMatch(/pre-install hooks? failed|migrate/);
    expect(runner()).toBeUndefined();
  });

  it('leaves the old version alone when the migrations of an upgrade fail', async () => {
    succeeded(await install());
    const before = runner()?.metadata.generation;
    api.cluster.failing.add('dock-codedock-migrate');
    const failed = await upgrade('--set', 'image.tag=9.9.9');
    expect(failed.code).not.toBe(0);
    expect(failed.stderr).toContain('migrate');
    expect(runner()?.metadata.generation).toBe(before);

    api.cluster.failing.clear();
    succeeded(await upgrade('--set', 'image.tag=9.9.9'));
    expect(JSON.stringify(runner()?.spec)).toContain('codedock-runner:9.9.9');
  });

  it('goes back by itself when the new version does not come up', async () => {
    succeeded(await install());
    api.cluster.failing.add('dock-codedock-runner');
    const failed = await run(
      'upgrade',
      'dock',
      chart,
      '-f',
      valuesOf('standard'),
      ...['--set', 'image.tag=9.9.9', '--rollback-on-failure', '--wait', '--timeout', '60s'],
    );
    expect(failed.code).not.toBe(0);
    expect(JSON.stringify(runner()?.spec)).not.toContain('9.9.9');
  });

  it('fails the test of a release whose run fails', async () => {
    succeeded(await install());
    api.cluster.failing.add('dock-codedock-test');
    expect((await run('test', 'dock')).code).not.toBe(0);
  });

  it('hands a fixed count to an autoscaler without a moment with one runner', async () => {
    succeeded(await install(...fixed(5)));
    const counts: unknown[] = [];
    const stop = api.cluster.follow(api.cluster.newest, ({ key, object }) => {
      if (key.endsWith('/dock-codedock-runner') && object.kind === 'Deployment') counts.push(object.spec?.['replicas']);
    });
    succeeded(await upgrade(...hpa));
    stop();
    expect(runner()?.spec?.['replicas']).toBe(5);
    expect(counts.every((count) => count === 5)).toBe(true);

    // From the first count of the autoscaler on it is its field, and no upgrade touches it.
    api.cluster.scale('apps/v1/deployments/agents/dock-codedock-runner', 9);
    succeeded(await upgrade(...hpa, '--set', 'image.tag=9.9.9'));
    expect(runner()?.spec?.['replicas']).toBe(9);
    succeeded(await upgrade(...hpa));
    expect(runner()?.spec?.['replicas']).toBe(9);
  });

  it('takes the count from an autoscaler by force alone, and says what is in the way', async () => {
    succeeded(await install(...hpa));
    expect(runner()?.spec?.['replicas']).toBe(3);
    api.cluster.scale('apps/v1/deployments/agents/dock-codedock-runner', 9);
    const refused = await upgrade(...fixed(4));
    expect(refused.stderr).toContain('.spec.replicas');
    expect(runner()?.spec?.['replicas']).toBe(9);
    succeeded(await upgrade(...fixed(4), '--force-conflicts'));
    expect(runner()?.spec?.['replicas']).toBe(4);
    expect(named('autoscaling/v2', 'horizontalpodautoscalers', 'dock-codedock-runner')).toBeUndefined();
  });

  it('drops to one by a rollback to the autoscaler, until the autoscaler has its fewest back', async () => {
    succeeded(await install(...hpa));
    succeeded(await upgrade(...fixed(6), '--force-conflicts'));
    const counts: unknown[] = [];
    const stop = api.cluster.follow(api.cluster.newest, ({ key, object }) => {
      if (key.endsWith('/dock-codedock-runner') && object.kind === 'Deployment') counts.push(object.spec?.['replicas']);
    });
    succeeded(await run('rollback', 'dock', '1', '--wait'));
    stop();
    expect(counts).toContain(1);
    expect(runner()?.spec?.['replicas']).toBe(3);
  });
});
