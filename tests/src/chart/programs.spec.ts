import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { listVariables, readConfig, type Variable } from '@codedock/platform';
import { eventually, expectNoLeftovers, type TemporaryFolder, temporaryFolder, writePlugin } from '@codedock/testkit';
import { START_MS, type System, startSystem } from '../system.js';
import { chart, type Ended, render } from './helm.js';
import type { KubeObject } from './kubernetes/server-side-apply.js';
import { podsOf } from './pods.js';

// What the chart gives to programs, given to those programs.
let folder: TemporaryFolder;
beforeAll(async () => {
  folder = await temporaryFolder();
});
afterAll(async () => {
  await folder.remove();
  await expectNoLeftovers();
});

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...args], { env, timeout: 120_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : 1, stdout, stderr });
    });
  });
}

function environmentOf(objects: readonly KubeObject[], owner: string, replace: (value: string) => string) {
  const pod = podsOf(objects).find(
    (one) => /^dock(-codedock)?-/.test(one.owner.metadata.name) && one.owner.metadata.name.endsWith(`-${owner}`),
  );
  const env = pod?.spec.containers[0]?.env ?? [];
  return Object.fromEntries(env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, replace(value)]])));
}

describe('the variables of', () => {
  const secrets = {
    DATABASE_URL: 'postgresql://user:password@database/codedock',
    DATABASE_DIRECT_URL: 'postgresql://user:password@direct/codedock',
    QUEUE_URL: 'redis://queue:6379',
    OPENAI_API_KEY: 'sk-of-the-test',
    CODEDOCK_CAPABILITY_KEY: 'x'.repeat(48),
    CODEDOCK_SECRETS_KEY: 'ab'.repeat(32),
    CODEDOCK_CAPABILITY_KEYS_ACCEPTED: 'y'.repeat(48),
    CODEDOCK_SECRETS_KEYS_ACCEPTED: 'cd'.repeat(32),
  };

  it.each(
    ['standard', 'dev', 'minimal', 'hpa', 'existing-secrets', 'routes', 'plugins', 'extras'].flatMap((mode) =>
      (['gateway', 'runner', 'plugin-host'] as const).map((app) => [mode, app] as const),
    ),
  )('%s are what the %s reads', async (mode, app) => {
    for (const [name, value] of Object.entries(secrets)) writeFileSync(path.join(folder.path, name), value);
    const objects = await render(mode);
    if (mode === 'minimal' && app === 'plugin-host') {
      expect(podsOf(objects).some(({ owner }) => owner.metadata.name.endsWith('plugin-host'))).toBe(false);
      return;
    }
    const env = environmentOf(objects, app, (value) => value.replace('/etc/codedock/secrets', folder.path));
    // Unknown names and contradictions are refused.
    const config = readConfig(app, env);
    if ('databaseUrl' in config) expect(config.databaseUrl.reveal()).toBe(secrets.DATABASE_URL);
    if ('httpListen' in config) expect(config.httpListen.host).toBe(mode === 'extras' ? '::' : '0.0.0.0');
  });
});

it('every secret that a service reads can come from a Secret of yours', async () => {
  const objects = await render('existing-secrets');
  for (const app of ['gateway', 'runner', 'plugin-host'] as const) {
    const given = Object.keys(environmentOf(objects, app, String));
    const wanted = listVariables()
      .map(([, variable]) => variable as Variable)
      // The token is for loopback, where there is no TLS.
      .filter(({ secret, apps, name }) => secret && apps.includes(app) && name !== 'CODEDOCK_INTERNAL_TOKEN');
    expect(given).toEqual(expect.arrayContaining(wanted.map(({ name }) => `${name}_FILE`)));
  }
});

describe('the certificates', () => {
  it('are for the addresses that callers use, and of one authority', async () => {
    const objects = await render('standard');
    const files = (component: string) => {
      const secret = objects.find(({ metadata }) => metadata.name === `dock-codedock-${component}-tls`);
      const read = (name: string) => Buffer.from(secret?.data?.[name] ?? '', 'base64');
      return {
        ca: new X509Certificate(read('ca.crt')),
        cert: new X509Certificate(read('tls.crt')),
        key: read('tls.key'),
      };
    };
    const addresses = {
      gateway: environmentOf(objects, 'plugin-host', String)['CODEDOCK_HOST_API_URL'],
      'plugin-host': environmentOf(objects, 'runner', String)['PLUGIN_HOST_URL'],
    };
    for (const component of ['gateway', 'runner', 'plugin-host']) {
      const { ca, cert, key } = files(component);
      expect(cert.verify(ca.publicKey)).toBe(true);
      expect(cert.checkPrivateKey(createPrivateKey(key))).toBe(true);
      expect(ca.fingerprint256).toBe(files('gateway').ca.fingerprint256);
      // For both ends of a connection.
      expect(cert.keyUsage).toEqual(expect.arrayContaining(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']));
    }
    for (const [component, address] of Object.entries(addresses)) {
      expect(files(component).cert.checkHost(address?.split(':')[0] ?? '')).toBeDefined();
    }
  });
});

describe('plugins', () => {
  const script = path.join(chart, 'files/install-plugins.mjs');
  let place: string;
  let count = 0;
  beforeEach(() => {
    count += 1;
    place = path.join(folder.path, `plugins-${count}`);
    mkdirSync(place);
  });

  function source(name: string, pluginJson?: object): string {
    const from = path.join(place, 'from', name);
    mkdirSync(from, { recursive: true });
    writeFileSync(path.join(from, name), '#!/bin/sh\n');
    chmodSync(path.join(from, name), 0o777);
    if (pluginJson !== undefined) writeFileSync(path.join(from, 'plugin.json'), JSON.stringify(pluginJson));
    return from;
  }

  function install(plan: object): Promise<Ended> {
    const file = path.join(place, 'plan.json');
    writeFileSync(
      file,
      JSON.stringify({ plugins: [], volume: '', manifests: {}, into: path.join(place, 'into'), ...plan }),
    );
    return run([script, file]);
  }

  it('are laid out so that nobody else can write to them, with what the values lay over plugin.json', async () => {
    const from = source('10-policy', { required: false, config: { a: 1 } });
    symlinkSync('10-policy', path.join(from, 'link'));
    chmodSync(place, 0o777);
    const volume = path.join(place, 'volume');
    mkdirSync(path.join(volume, 'lost+found'), { recursive: true });
    cpSync(source('20-audit'), path.join(volume, '20-audit'), { recursive: true });
    const plan = {
      plugins: [{ name: '10-policy', from }],
      volume,
      manifests: { '10-policy': { config: { a: 2 } }, '20-audit': { mode: 'shadow' } },
    };
    // A container that is started again does it again.
    for (const _ of [1, 2]) expect(await install(plan)).toMatchObject({ code: 0, stderr: '' });

    const into = path.join(place, 'into');
    const modeOf = (name: string) => statSync(path.join(into, name)).mode & 0o7777;
    expect(['.', '10-policy', '10-policy/10-policy', '20-audit'].map(modeOf)).toEqual([0o755, 0o755, 0o755, 0o755]);
    const manifestOf = (name: string) => JSON.parse(readFileSync(path.join(into, name, 'plugin.json'), 'utf8'));
    expect(manifestOf('10-policy')).toEqual({ required: false, config: { a: 2 } });
    expect(manifestOf('20-audit')).toEqual({ mode: 'shadow' });
    expect(readFileSync(path.join(into, '10-policy/link'), 'utf8')).toBe('#!/bin/sh\n');
  });

  it('that the values name and that are not there stop the pod', async () => {
    const plan = { plugins: [{ name: 'policy', from: source('policy') }], manifests: { polcy: {} } };
    const { code, stderr } = await install(plan);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('polcy, but there is no such plugin; there are: policy'),
    });
  });
});

describe('helm test', () => {
  let system: System;
  let pod: { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> };

  // Plugins as the chart lays them out, and no runner yet.
  beforeAll(async () => {
    const incoming = path.join(folder.path, 'incoming');
    mkdirSync(incoming);
    await writePlugin(incoming, 'rewrite', { mode: 'deny', tools: ['none'] });
    system = await startSystem({
      runners: 0,
      plugins: async (root) => {
        const plan = path.join(folder.path, 'plan.json');
        const plugins = [{ name: 'rewrite', from: path.join(incoming, 'rewrite') }];
        writeFileSync(
          plan,
          JSON.stringify({ plugins, volume: '', manifests: { rewrite: { match: { tenants: ['*'] } } }, into: root }),
        );
        expect((await run([path.join(chart, 'files/install-plugins.mjs'), plan])).code).toBe(0);
      },
    });
    // Without a runner nobody has waited for the plugins yet.
    await eventually(async () => system.startRun(await system.createSession(), { content: 'anybody there?' }), {
      timeoutMs: 90_000,
      intervalMs: 250,
      what: 'input to pass the gates',
    });
    const objects = await render('standard');
    const container = podsOf(objects).find(({ owner }) => owner.kind === 'Pod')?.spec.containers[0];
    const key = path.join(folder.path, 'CODEDOCK_API_KEY');
    writeFileSync(key, `${system.key}\n`);
    pod = {
      args: [...(container?.command ?? []).slice(1), ...(container?.args ?? [])],
      env: { ...environmentOf(objects, 'test', String), GATEWAY: system.url, API_KEY_FILE: key },
    };
  }, START_MS);
  afterAll(() => system?.stop());

  it('fails, and says why, when no runner takes the run', async () => {
    const { code, stderr } = await run(pod.args, { ...pod.env, TIMEOUT_SECONDS: '1' });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/is still "queued" after 1 s/) });
  });

  it('fails with a key that nobody knows', async () => {
    const key = path.join(folder.path, 'unknown');
    writeFileSync(key, `cdk_${'x'.repeat(43)}`);
    const { code, stderr } = await run(pod.args, { ...pod.env, API_KEY_FILE: key });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('was answered with 401') });
  });

  it('has autoscalers ask for what is there: the waiting runs', async () => {
    const waiting = await system.db.query("SELECT 1 FROM runs WHERE status = 'queued'");
    const trigger = async (mode: string) => {
      const scaled = (await render(mode)).find(({ kind }) => kind === 'ScaledObject');
      const spec = scaled?.spec as { triggers: { metadata: { query: string } }[] } | undefined;
      return spec?.triggers[0]?.metadata.query ?? '';
    };
    const { rows } = await system.db.query<{ count: string }>(await trigger('keda-postgresql'));
    expect(Number(rows[0]?.count)).toBe(waiting.rowCount);
    expect(Number(rows[0]?.count)).toBeGreaterThan(0);

    const metric = /max\((\w+)\)/.exec(await trigger('keda-prometheus'))?.[1] ?? 'none';
    await eventually(async () => {
      const metrics = await (await fetch(`${system.url}/metrics`)).text();
      expect(metrics).toMatch(new RegExp(`^${metric}(\\{.*\\})? ${waiting.rowCount}$`, 'm'));
    });
  });

  it('does a real run', async () => {
    await system.startRunner();
    const { code, stdout, stderr } = await run(pod.args, pod.env);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: expect.stringMatching(/: completed/), stderr: '' });
  });
});
