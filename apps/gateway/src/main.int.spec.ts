import { prepareQueueSchema } from '@codedock/queue';
import {
  createTestDatabase,
  expectNoLeftovers,
  freePort,
  nodeTypeScript,
  openEventStream,
  startProcess,
  type TestDatabase,
  type TestProcess,
} from '@codedock/testkit';
import { startTestGateway, type TestGateway } from './testing/start-gateway.js';

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await prepareQueueSchema(database.url);
});

afterAll(async () => {
  await database.drop();
  await expectNoLeftovers();
});

const program = nodeTypeScript('apps/gateway/src/main.ts');

async function failedStart(env: Record<string, string>): Promise<{ code: number | null; stderr: string }> {
  const failing = await startProcess({ ...program, name: 'gateway', env });
  const { code } = await failing.exited;
  return { code, stderr: failing.stderr() };
}

describe('a start', () => {
  it.each([
    ['DATABASE_URL', {}],
    ['DATABASE_URL', { DATABASE_URL: 'mysql://x' }],
    ['QUEUE_URL', { QUEUE_URL: 'amqp://x' }],
    ['CODEDOCK_HTTP_LISTEN', { CODEDOCK_HTTP_LISTEN: 'everywhere' }],
    ['CODEDOCK_CORS_ORIGINS', { CODEDOCK_CORS_ORIGINS: 'https://a.example/path' }],
    ['CODEDOCK_HOST_API_LISTEN', { CODEDOCK_HOST_API_LISTEN: '0.0.0.0:7071' }],
    ['CODEDOCK_INTERNAL_TOKEN', { PLUGIN_HOST_URL: '127.0.0.1:7070' }],
    ['CODEDOCK_PROFILES_FILE', { CODEDOCK_PROFILES_FILE: '/nowhere/agents.yaml' }],
    ['CODEDOCK_LISTN', { CODEDOCK_LISTN: '1' }],
  ])('is refused for a wrong %s, which is named', async (variable, env: Record<string, string>) => {
    const url = variable === 'DATABASE_URL' ? {} : { DATABASE_URL: database.url };
    const { code, stderr } = await failedStart({ ...url, CODEDOCK_HTTP_LISTEN: '127.0.0.1:0', ...env });
    expect(code).toBe(1);
    expect(stderr).toContain(variable);
    expect(stderr).not.toContain('    at ');
  });

  it('is refused while the database cannot be reached', async () => {
    const { code, stderr } = await failedStart({ DATABASE_URL: `postgres://a:b@127.0.0.1:${await freePort()}/c` });
    expect(code).toBe(1);
    expect(stderr).toContain('database');
  });
});

describe('a running gateway', () => {
  let other: TestGateway;
  let gateway: TestProcess;
  let url: string;

  beforeAll(async () => {
    other = await startTestGateway(database.url);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    gateway = await startProcess({
      ...program,
      name: 'gateway',
      env: {
        DATABASE_URL: database.url,
        CODEDOCK_HTTP_LISTEN: `127.0.0.1:${port}`,
        CODEDOCK_CORS_ORIGINS: 'https://a.example',
      },
      ready: `${url}/readyz`,
    });
  });
  afterAll(async () => {
    await gateway.kill();
    await other.stop();
  });

  it('serves metrics, and CORS to the configured origins alone', async () => {
    const metrics = await fetch(`${url}/metrics`, { headers: { connection: 'close' } });
    expect(metrics.status).toBe(200);
    expect(await metrics.text()).toContain('target_info');
    const allowed = async (origin: string) => {
      const answer = await fetch(`${url}/healthz`, { headers: { origin, connection: 'close' } });
      await answer.text();
      return answer.headers.get('access-control-allow-origin');
    };
    expect(await allowed('https://a.example')).toBe('https://a.example');
    expect(await allowed('https://b.example')).not.toBe('https://b.example');
  });

  it('on SIGTERM ends streams in good order and exits 0 by itself', async () => {
    const tenant = await other.tenant('main');
    const session = (await other.send('POST', '/v1/sessions', { key: tenant.key, body: {} })).body.id;
    const headers = { authorization: `Bearer ${tenant.key}`, origin: 'https://a.example' };
    const stream = await openEventStream(`${url}/v1/sessions/${session}/events`, { headers });
    expect(stream.headers['access-control-allow-origin']).toBe('https://a.example');
    expect(await gateway.stop()).toEqual({ code: 0, signal: null });
    expect(await stream.over).toBe('ended');
  });
});
