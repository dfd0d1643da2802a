import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { listVariables, type Variable } from '@codedock/platform';
import { prepareQueueSchema } from '@codedock/queue';
import {
  createTestDatabase,
  describeWithRedis,
  expectNoLeftovers,
  freePort,
  repositoryRoot,
  startProcess,
  startRedis,
  type TemporaryFolder,
  type TestDatabase,
  temporaryFolder,
} from '@codedock/testkit';

type Service = 'gateway' | 'runner' | 'plugin-host';
type Environment = Readonly<Record<string, string>>;

const SERVICES: readonly Service[] = ['gateway', 'runner', 'plugin-host'];
const TOKEN = 'x'.repeat(32);
const SECRET_PART = 'hunter2';
jest.setTimeout(120_000);

/** What a variable of each kind does not take, and how its message begins. Kinds that take any text have files below. */
const WRONG: Readonly<Record<string, string>> = {
  duration: 'soon',
  integer: 'many',
  URL: `gopher://user:${SECRET_PART}@nowhere/`,
  'host:port': 'nowhere',
  'host:port, …': 'http://somewhere:1',
  'origin, …': 'https://app.example.com/path',
  'true or false': 'perhaps',
  secret: 'short',
  'secrets, …': 'short',
  key: 'short',
  'keys, …': 'short',
  'name, …': ',',
};
const ANY_TEXT = new Set(['file', 'folder', 'folder:…', 'model', 'text']);

let folder: TemporaryFolder;
let database: TestDatabase;

beforeAll(async () => {
  folder = await temporaryFolder();
  database = await createTestDatabase();
  await prepareQueueSchema(database.url);
});
afterAll(async () => {
  await database?.drop();
  await folder?.remove();
  await expectNoLeftovers();
});

/** Starts a service that must refuse; answers what it said. */
async function refusal(service: Service, env: Environment): Promise<string> {
  const started = await startProcess({
    command: process.execPath,
    args: [path.join(repositoryRoot(), 'apps', service, 'dist', 'main.js')],
    env,
    name: service,
    ready: /"msg":"shut down"|^\S+: |listens|takes runs|serves gates/m,
    readyTimeoutMs: 60_000,
  }).catch((error: Error) => {
    throw new Error(`${service} said nothing: ${error.message}`);
  });
  const timer = setTimeout(() => started.signal('SIGKILL'), 30_000);
  const { code } = await started.exited;
  clearTimeout(timer);
  expect({ service, env, code, output: started.output() }).toMatchObject({ code: 1 });
  return started.stderr();
}

const base = (service: Service): Environment => ({
  CODEDOCK_INTERNAL_TOKEN: TOKEN,
  CODEDOCK_LOG_LEVEL: 'error',
  ...(service === 'plugin-host' ? {} : { DATABASE_URL: database.url }),
});

const of = (service: Service): readonly Variable[] =>
  listVariables().flatMap(([, variable]) => (variable.apps.includes(service) ? [variable] : []));
const wrongFor = (variable: Variable): string | undefined =>
  variable.kind.includes('|') ? 'anything-else' : WRONG[variable.kind];

/** The line of the message that is about this variable. */
const about = (text: string, name: string) => text.split('\n').filter((line) => line.startsWith(`  - ${name} `));

const tlsFiles = (file: string) => ({
  CODEDOCK_TLS_CA_FILE: file,
  CODEDOCK_TLS_CERT_FILE: file,
  CODEDOCK_TLS_KEY_FILE: file,
});

describe.each(SERVICES)('the %s', (service) => {
  it('names every variable that is wrong or does not exist, each with its remedy, and shows no secret', async () => {
    // Without a minimum length any text is a secret: nothing is wrong for such a variable.
    const checked = of(service).filter(({ schema, ...variable }) => {
      const wrong = wrongFor({ schema, ...variable });
      return wrong !== undefined && !schema.safeParse(wrong).success;
    });
    const unchecked = of(service).filter((variable) => !checked.includes(variable));
    for (const { name, kind } of unchecked) {
      expect({ name, free: ANY_TEXT.has(kind) || kind === 'secret' }).toEqual({ name, free: true });
    }
    const text = await refusal(service, {
      ...Object.fromEntries(checked.map((variable) => [variable.name, wrongFor(variable) as string])),
      CODEDOCK_LOG_LEVLE: 'info',
    });
    expect(text).toMatch(/CODEDOCK_LOG_LEVLE is not a variable of CodeDock\. Did you mean CODEDOCK_LOG_LEVEL\?/);
    for (const { name } of checked) {
      expect({ name, lines: about(text, name) }).toEqual({
        name,
        lines: [expect.stringMatching(/(write|use|it must be) /i)],
      });
    }
    expect(text).not.toContain(SECRET_PART);
    expect(text).not.toMatch(/\n\s+at /);
  });

  it('refuses TLS files that are not there', async () => {
    const missing = path.join(folder.path, 'none.pem');
    const { CODEDOCK_INTERNAL_TOKEN: _, ...rest } = base(service);
    const text = await refusal(service, { ...rest, ...tlsFiles(missing), PLUGIN_HOST_URL: '127.0.0.1:1' });
    expect(text).toMatch(
      new RegExp(`CODEDOCK_TLS_\\w+_FILE\\b.*${missing}.*cannot be read.*check path and rights`, 'i'),
    );
  });
});

it('one wrong value, or a part of what belongs together, is enough', async () => {
  const one = await refusal('runner', { ...base('runner'), CODEDOCK_LOG_LEVEL: 'loud' });
  expect(one).toMatch(/CODEDOCK_LOG_LEVEL is "loud".*Write one of/);
  expect(one.split('\n').filter((line) => line.includes('  - '))).toHaveLength(1);
  const { CODEDOCK_TLS_KEY_FILE: _, ...partial } = tlsFiles(path.join(folder.path, 'none.pem'));
  expect(await refusal('plugin-host', { ...base('plugin-host'), ...partial })).toMatch(
    /CODEDOCK_TLS_KEY_FILE is not set.*Set all three/,
  );
});

describe('values that only meet the world at the start', () => {
  it.each<[Service, string]>([
    ['gateway', 'CODEDOCK_HTTP_LISTEN'],
    ['gateway', 'CODEDOCK_HOST_API_LISTEN'],
    ['runner', 'CODEDOCK_RUNNER_HEALTH_LISTEN'],
    ['plugin-host', 'PLUGIN_HOST_LISTEN'],
    ['plugin-host', 'CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN'],
  ])('%s refuses %s that is taken', async (service, name) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as AddressInfo;
    const free = {
      CODEDOCK_HTTP_LISTEN: `127.0.0.1:${await freePort()}`,
      CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${await freePort()}`,
      CODEDOCK_RUNNER_HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
      PLUGIN_HOST_LISTEN: `127.0.0.1:${await freePort()}`,
      CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    };
    try {
      const text = await refusal(service, { ...base(service), ...free, [name]: `127.0.0.1:${port}` });
      expect(text).toContain(name);
      expect(text).toMatch(/free/);
      expect(text).not.toMatch(/\n\s+at /);
    } finally {
      await new Promise((resolve) => taken.close(resolve));
    }
  });

  it.each<Service>(['gateway', 'runner'])('%s refuses a database and a queue that do not answer', async (service) => {
    const nobody = `postgres://someone:${SECRET_PART}@127.0.0.1:${await freePort()}/nothing`;
    const withoutDatabase = await refusal(service, { ...base(service), DATABASE_URL: nobody });
    expect(withoutDatabase).toContain('DATABASE_URL');
    const withoutQueue = await refusal(service, {
      ...base(service),
      QUEUE_URL: `redis://127.0.0.1:${await freePort()}`,
    });
    expect(withoutQueue).toContain('QUEUE_URL');
    expect(withoutDatabase + withoutQueue).not.toContain(SECRET_PART);
  });

  it('the gateway refuses a profiles file that is missing or wrong', async () => {
    const missing = path.join(folder.path, 'missing.json');
    expect(await refusal('gateway', { ...base('gateway'), CODEDOCK_PROFILES_FILE: missing })).toMatch(
      new RegExp(`CODEDOCK_PROFILES_FILE.*${missing}`),
    );
    const wrong = path.join(folder.path, 'wrong.json');
    writeFileSync(wrong, JSON.stringify({ agents: [{ name: 'a', model: { provider: 'none', name: 'x' } }] }));
    const text = await refusal('gateway', { ...base('gateway'), CODEDOCK_PROFILES_FILE: wrong });
    expect(text).toMatch(/CODEDOCK_PROFILES_FILE/);
    expect(text).toMatch(/agents.*0.*model.*provider/s);
  });

  it('the plugin-host refuses a plugin folder that is not there', async () => {
    const missing = path.join(folder.path, 'no-plugins');
    expect(await refusal('plugin-host', { ...base('plugin-host'), CODEDOCK_PLUGIN_DIR: missing })).toMatch(
      new RegExp(`CODEDOCK_PLUGIN_DIR.*${missing}`),
    );
  });
});

describeWithRedis('a Redis that evicts', () => {
  it.each<Service>(['gateway', 'runner'])('is refused by the %s', async (service) => {
    const redis = await startRedis();
    try {
      await redis.run('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
      const text = await refusal(service, { ...base(service), QUEUE_URL: redis.url });
      expect(text).toMatch(/QUEUE_URL/);
      expect(text).toMatch(/noeviction/);
    } finally {
      await redis.stop();
    }
  });
});

describe('the command line', () => {
  const refused = async (env: Environment, ...args: string[]): Promise<string> => {
    const command = await startProcess({
      command: process.execPath,
      args: [path.join(repositoryRoot(), 'apps', 'cli', 'dist', 'main.js'), ...args],
      env,
      name: 'codedock',
    });
    expect((await command.exited).code).not.toBe(0);
    return command.stderr();
  };

  it('names the variable that is wrong or missing', async () => {
    const key = { CODEDOCK_API_KEY: 'cdk_x' };
    for (const wrong of ['nonsense', `http://127.0.0.1:${await freePort()}`]) {
      expect(await refused({ ...key, CODEDOCK_URL: wrong }, 'plugins', 'list')).toMatch(
        new RegExp(`${wrong}.*cannot be reached.*CODEDOCK_URL`),
      );
    }
    // Without a folder of its own it would find what an `npm start` in this clone has left.
    const nowhere = { HOME: folder.path, CODEDOCK_DATA_DIR: folder.path };
    expect(await refused(nowhere, 'plugins', 'list')).toMatch(/CODEDOCK_API_KEY is not set/);
    expect(await refused(nowhere, 'keys', 'list')).toMatch(/DATABASE_URL/);
  });
});
