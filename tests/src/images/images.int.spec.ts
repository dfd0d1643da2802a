import { createHash, randomBytes } from 'node:crypto';
import { lstat, mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually, freePort, repositoryRoot, requireRedis, startProcess, testServices } from '@codedock/testkit';
import { Client, escapeIdentifier } from 'pg';
import { type Api, apiOf } from '../api.js';
import { installShipped } from '../resilience/shipped-plugin.js';
import { fakeScript } from '../system.js';
import { type Container, podman, removeContainers, startContainer } from './podman.js';
import { layersOf, layersOfRebuilt } from './rebuilt.js';

const targets = ['gateway', 'runner', 'plugin-host', 'migrate'] as const;
const services = ['gateway', 'runner', 'plugin-host'] as const;
const MAX_MEGABYTES = 350;

interface Image {
  readonly Size: number;
  readonly User: string;
  readonly Labels: Record<string, string>;
  readonly Config: {
    readonly Entrypoint: readonly string[];
    readonly Env: readonly string[];
    readonly Healthcheck?: { readonly Test: readonly string[] };
  };
  readonly Healthcheck?: { readonly Test: readonly string[] };
}

async function inspect(target: string): Promise<Image> {
  return JSON.parse(await podman('image', 'inspect', `localhost/codedock-${target}:test`))[0] as Image;
}

/** Relative path → digest of every file below a folder; of a link, where it points to. */
async function digests(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    const file = path.join(folder, name);
    const stat = await lstat(file);
    if (stat.isSymbolicLink()) found[name] = `-> ${await readlink(file)}`;
    else if (stat.isFile()) {
      found[name] = createHash('sha256')
        .update(await readFile(file))
        .digest('hex');
    }
  }
  return found;
}

describe('the images', () => {
  it.each(targets)('%s: small, without root, with an init, labels and a bill of materials', async (target) => {
    const image = await inspect(target);
    const megabytes = Math.round(image.Size / 1e6);
    process.stderr.write(`image ${target}: ${megabytes} MB\n`);
    expect(megabytes).toBeLessThanOrEqual(MAX_MEGABYTES);
    expect(image.User).toBe('1000:1000');
    expect(image.Config.Entrypoint.slice(0, 3)).toEqual(['/sbin/tini', '--', 'node']);
    expect(image.Config.Env).toContain('NODE_ENV=production');
    expect(image.Labels).toMatchObject({
      'org.opencontainers.image.title': `CodeDock ${target}`,
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': expect.stringMatching(/^\d+\.\d+\.\d+/),
      'org.opencontainers.image.revision': expect.any(String),
    });
    const health = image.Healthcheck ?? image.Config.Healthcheck;
    expect(health !== undefined).toBe(target !== 'migrate');
  });

  describe.each(targets)('the files of %s', (target) => {
    let mounted: string;

    beforeAll(async () => {
      mounted = (await podman('image', 'mount', `localhost/codedock-${target}:test`)).trim();
    });
    afterAll(async () => {
      await podman('image', 'unmount', `localhost/codedock-${target}:test`);
    });

    it('are listed in a bill of materials, and none is a development dependency', async () => {
      const sbom = JSON.parse(await readFile(path.join(mounted, 'app/sbom.cdx.json'), 'utf8')) as {
        components: { name: string; version: string; purl: string }[];
      };
      const names = sbom.components.map((component) => component.name);
      expect(names).toContain('@codedock/domain');
      expect(names).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(jest|typescript|nx|prisma|knip)$/)]));
      for (const component of sbom.components) {
        expect(component.purl).toBe(`pkg:npm/${component.name.replace('@', '%40')}@${component.version}`);
      }
      const files = Object.keys(await digests(path.join(mounted, 'app')));
      expect(files.filter((file) => /\.(spec\.js|tsbuildinfo)$|(^|\/)\.env$/.test(file))).toEqual([]);
      expect(files.filter((file) => file.startsWith('node_modules/typescript/'))).toEqual([]);
    });

    it('belong to root and cannot be written by the user who runs them', async () => {
      for (const name of await readdir(path.join(mounted, 'app'), { recursive: true })) {
        const stat = await lstat(path.join(mounted, 'app', name));
        if (!stat.isSymbolicLink())
          expect({ name, uid: stat.uid, mode: stat.mode & 0o022 }).toEqual({ name, uid: 0, mode: 0 });
      }
    });

    it('and its layers are the same bytes as those of another build of the same source', async () => {
      const out = await mkdtemp(path.join(tmpdir(), 'codedock-tree-'));
      try {
        const { version } = JSON.parse(await readFile(path.join(repositoryRoot(), 'package.json'), 'utf8'));
        const tree = await startProcess({
          command: process.execPath,
          args: ['scripts/production-tree.mjs', '--out', out, '--release', version, target],
          cwd: repositoryRoot(),
          name: 'production-tree',
        });
        expect(await tree.exited).toMatchObject({ code: 0 });
        expect(await digests(path.join(out, target))).toEqual(await digests(path.join(mounted, 'app')));
        expect(await layersOfRebuilt(target, out, version)).toEqual(
          await layersOf(`localhost/codedock-${target}:test`),
        );
      } finally {
        await rm(out, { recursive: true });
      }
    }, 240_000);
  });
});

describe('containers of the images', () => {
  const database = `codedock_images_${process.pid}`;
  const { adminUrl, owner } = testServices();
  const running: Partial<Record<(typeof services)[number], Container>> = {};
  let plugins: string;
  let store: Record<string, string>;
  let shared: Record<string, string>;
  let api: Api;
  let port: number;

  async function asAdmin(sql: string): Promise<void> {
    const client = new Client({ connectionString: adminUrl });
    await client.connect();
    await client.query(sql).finally(() => client.end());
  }

  beforeAll(async () => {
    await asAdmin(`CREATE DATABASE ${escapeIdentifier(database)} OWNER ${escapeIdentifier(owner.user)}`);
    const url = new URL(adminUrl);
    url.username = encodeURIComponent(owner.user);
    url.password = encodeURIComponent(owner.password);
    url.pathname = `/${database}`;
    store = { DATABASE_URL: url.href, QUEUE_URL: (await requireRedis()).url };
    shared = {
      CODEDOCK_INTERNAL_TOKEN: randomBytes(24).toString('hex'),
      CODEDOCK_CAPABILITY_KEY: randomBytes(32).toString('hex'),
    };
    plugins = await mkdtemp(path.join(tmpdir(), 'codedock-plugins-'));
    await installShipped(plugins, 'redact');
    await startProcess({ command: 'chmod', args: ['-R', 'a+rX', plugins] }).then(({ exited }) => exited);
  }, 60_000);
  afterAll(async () => {
    await removeContainers();
    await rm(plugins, { recursive: true });
    await asAdmin(`DROP DATABASE IF EXISTS ${escapeIdentifier(database)} WITH (FORCE)`);
  }, 60_000);

  it('migrate an empty database, twice, and end', async () => {
    for (const _ of [1, 2]) {
      const migrate = await startContainer('migrate', store);
      const code = Number(await podman('wait', migrate.name));
      expect({ code, logs: code === 0 ? '' : await migrate.logs() }).toEqual({ code: 0, logs: '' });
    }
  }, 120_000);

  it('say what is wrong and end when a variable is missing', async () => {
    const gateway = await startContainer('gateway', {});
    expect(Number(await podman('wait', gateway.name))).not.toBe(0);
    expect(await podman('logs', gateway.name).catch(String)).toBeDefined();
  }, 60_000);

  it('become healthy beside PostgreSQL and Redis', async () => {
    const [http, hostApi, gates, runnerHealth, hostHealth] = await Promise.all(Array.from({ length: 5 }, freePort));
    port = http as number;
    running['plugin-host'] = await startContainer(
      'plugin-host',
      {
        ...shared,
        PLUGIN_HOST_LISTEN: `127.0.0.1:${gates}`,
        CODEDOCK_HOST_API_URL: `127.0.0.1:${hostApi}`,
        CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${hostHealth}`,
      },
      { [plugins]: '/plugins' },
    );
    const hooks = { PLUGIN_HOST_URL: `127.0.0.1:${gates}` };
    running.gateway = await startContainer('gateway', {
      ...shared,
      ...store,
      ...hooks,
      CODEDOCK_HTTP_LISTEN: `127.0.0.1:${http}`,
      CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApi}`,
    });
    running.runner = await startContainer('runner', {
      ...shared,
      ...store,
      ...hooks,
      CODEDOCK_RUNNER_HEALTH_LISTEN: `127.0.0.1:${runnerHealth}`,
    });
    await Promise.all(services.map((service) => running[service]?.healthy()));
  }, 180_000);

  it('make the first key with the command in the gateway image', async () => {
    const printed = await running.gateway?.exec(
      'codedock',
      'keys',
      'create',
      'first',
      '--scopes',
      'runs,approvals,admin',
    );
    const key = /cdk_[\w-]+/.exec(printed ?? '')?.[0];
    expect(key).toBeDefined();
    api = apiOf(`http://127.0.0.1:${port}`, key as string);
  }, 60_000);

  it('do a run through the gates of a real plugin', async () => {
    await eventually(async () => (await api<{ ready?: boolean }>('GET', '/v1/plugins/explain')).body.ready === true, {
      timeoutMs: 60_000,
      what: 'the chain',
    });
    const session = await api<{ id: string }>('POST', '/v1/sessions', {});
    const content = `${fakeScript({ text: 'done' })}`;
    const started = await api<{ run: { id: string } }>('POST', `/v1/sessions/${session.body.id}/runs`, { content });
    expect(started).toMatchObject({ status: 201 });
    await eventually(
      async () => {
        const run = await api<{ status: string }>('GET', `/v1/runs/${started.body.run.id}`);
        expect(run.body.status).toBe('completed');
      },
      { timeoutMs: 60_000 },
    );
    const audit = await api<{ items: { gate: string; plugin: string }[] }>(
      'GET',
      `/v1/runs/${started.body.run.id}/hooks`,
    );
    expect(JSON.stringify(audit.body)).toContain('redact');
  }, 180_000);

  it.each(['runner', 'plugin-host', 'gateway'] as const)(
    '%s ends in good order on SIGTERM',
    async (service) => {
      const container = running[service] as Container;
      const { code, ms } = await container.stop();
      process.stderr.write(`image ${service}: exit ${code} after ${ms} ms\n`);
      expect(code).toBe(0);
    },
    60_000,
  );
});
