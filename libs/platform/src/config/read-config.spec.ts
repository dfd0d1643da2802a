import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { ConfigError } from './config-error.js';
import { readConfig, readVariables } from './read-config.js';
import { Secret } from './secret.js';
import { listVariables } from './variables.js';

const DATABASE = { DATABASE_URL: 'postgresql://user:hunter2@db:5432/codedock' };

function problemsOf(read: () => unknown): string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) {
      return error.problems.map(({ message }) => message);
    }
    throw error;
  }
  return [];
}

describe('defaults', () => {
  test('a runner needs only a database', () => {
    const config = readConfig('runner', DATABASE);
    expect(config).toMatchObject({
      pluginRpcTimeoutMs: 2_000,
      pluginGateTimeoutMs: 2_000,
      runnerDrainTimeoutMs: 25_000,
      runnerConcurrency: 8,
      leaseTtlMs: 15_000,
      leaseHeartbeatMs: 5_000,
      approvalTtlMs: 86_400_000,
      pluginHostUrls: undefined,
    });
    expect(config.queueUrl.reveal()).toBe(DATABASE.DATABASE_URL);
    expect(config.databaseDirectUrl.reveal()).toBe(DATABASE.DATABASE_URL);
  });

  test.each([
    'redis://queue/1',
    'rediss+sentinel://user:pass,word@s1:26379,s2:26379,[::1]:26379/main/0',
    'redis+cluster://n1:6379,n2:6379',
  ])('the queue may be at %s', (url) => {
    expect(readConfig('runner', { ...DATABASE, QUEUE_URL: url }).queueUrl.reveal()).toBe(url);
  });

  test.each(['redis+other://s1,s2', 'redis://n1:6379,n2:6379', 's1:26379,s2:26379'])('but not at %s', (url) => {
    expect(problemsOf(() => readConfig('runner', { ...DATABASE, QUEUE_URL: url }))).toEqual([
      expect.stringMatching(/^QUEUE_URL.*redis\+sentinel:\/\//),
    ]);
  });

  test('a plugin-host needs nothing and never sees database or provider key', () => {
    const config = readConfig('plugin-host', { ...DATABASE, OPENAI_API_KEY: 'sk-1' });
    expect(config.pluginHostListen).toEqual({ host: '127.0.0.1', port: 7070 });
    expect(Object.keys(config)).not.toEqual(expect.arrayContaining(['databaseUrl']));
    expect(Object.keys(config)).not.toEqual(expect.arrayContaining(['openaiApiKey']));
  });

  test('every default is a value of its own type', () => {
    for (const [, variable] of listVariables()) {
      if (variable.fallback !== undefined) {
        expect(variable.schema.safeParse(variable.fallback)).toMatchObject({ success: true });
      }
    }
  });

  test('the result cannot be changed', () => {
    const config = readConfig('gateway', DATABASE) as { httpListen: { port: number } };
    expect(() => {
      (config as { httpListen: unknown }).httpListen = 1;
    }).toThrow(TypeError);
    expect(() => {
      config.httpListen.port = 1;
    }).toThrow(TypeError);
  });
});

describe('a wrong value', () => {
  test('is named with its remedy, all at once', () => {
    const problems = problemsOf(() =>
      readConfig('runner', {
        PLUGIN_RPC_TIMEOUT: '2 seconds',
        CODEDOCK_RUNNER_CONCURRENCY: '0',
        PLUGIN_HOST_URL: 'http://host:7070',
      }),
    );
    expect(problems).toEqual([
      expect.stringMatching(/^DATABASE_URL is not set\. PostgreSQL/),
      expect.stringMatching(/^DATABASE_DIRECT_URL is not set, nor is DATABASE_URL/),
      expect.stringMatching(/^QUEUE_URL is not set, nor is DATABASE_URL/),
      expect.stringMatching(/^PLUGIN_HOST_URL is "http:\/\/host:7070".*Write host:port/),
      expect.stringMatching(/^PLUGIN_RPC_TIMEOUT is "2 seconds": not a duration\. .*such as 2s or 500ms\.$/),
      expect.stringMatching(/^CODEDOCK_RUNNER_CONCURRENCY is "0".*from 1 to 1000/),
    ]);
  });

  test('of a secret is not shown', () => {
    const problems = problemsOf(() => readConfig('gateway', { DATABASE_URL: 'mysql://u:hunter2@db/x' }));
    expect(problems.join()).toContain('DATABASE_URL has a value that cannot be used');
    expect(problems.join()).not.toContain('hunter2');
  });

  test('has the code config_invalid', () => {
    expect(() => readConfig('gateway', {})).toThrow(expect.objectContaining({ code: 'config_invalid' }));
  });
});

describe('unknown names', () => {
  test('are refused with the nearest known one', () => {
    expect(problemsOf(() => readConfig('plugin-host', { CODEDOCK_LOG_LEVLE: 'info' }))).toEqual([
      'CODEDOCK_LOG_LEVLE is not a variable of CodeDock. Did you mean CODEDOCK_LOG_LEVEL?',
    ]);
  });

  test('of other programs of CodeDock, of Kubernetes and of others are fine', () => {
    const environment = {
      CODEDOCK_RUNNER_CONCURRENCY: '8',
      CODEDOCK_GATEWAY_SERVICE_HOST: '10.0.0.1',
      CODEDOCK_GATEWAY_PORT: 'tcp://10.0.0.1:8080',
      CODEDOCK_GATEWAY_PORT_8080_TCP_ADDR: '10.0.0.1',
      SOMETHING_ELSE: '1',
    };
    expect(problemsOf(() => readConfig('plugin-host', environment))).toEqual([]);
  });

  test('any misspelling of one letter finds its name', () => {
    const ours = listVariables().filter(([, { name }]) => name.startsWith('CODEDOCK_'));
    fc.assert(
      fc.property(fc.constantFrom(...ours), fc.nat(), ([, { name }], position) => {
        const at = 'CODEDOCK_'.length + (position % (name.length - 'CODEDOCK_'.length));
        const misspelt = `${name.slice(0, at)}Ü${name.slice(at + 1)}`;
        expect(problemsOf(() => readConfig('plugin-host', { [misspelt]: 'x' })).join()).toContain(`mean ${name}?`);
      }),
    );
  });
});

describe('secrets', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-config-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  test('come from a file, without its line end', () => {
    const file = path.join(folder, 'url');
    writeFileSync(file, `${DATABASE.DATABASE_URL}\n`);
    const config = readConfig('gateway', { DATABASE_URL_FILE: file });
    expect(config.databaseUrl.reveal()).toBe(DATABASE.DATABASE_URL);
    expect(config.queueUrl.reveal()).toBe(DATABASE.DATABASE_URL);
  });

  test('both by value and by file are refused when they differ', () => {
    const file = path.join(folder, 'key');
    writeFileSync(file, 'from-file');
    const problems = problemsOf(() =>
      readConfig('gateway', { ...DATABASE, OPENAI_API_KEY: 'x', OPENAI_API_KEY_FILE: file }),
    );
    expect(problems).toEqual([
      expect.stringMatching(/^OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set and differ/),
    ]);
  });

  test('a missing or empty file is named', () => {
    const file = path.join(folder, 'none');
    expect(problemsOf(() => readConfig('gateway', { DATABASE_URL_FILE: file })).join()).toContain('(ENOENT)');
    writeFileSync(file, '\n');
    chmodSync(file, 0o600);
    expect(problemsOf(() => readConfig('gateway', { DATABASE_URL_FILE: file })).join()).toContain('the file is empty');
  });

  test('print nothing however they are turned into text', () => {
    const config = readConfig('gateway', DATABASE);
    const texts = [
      `${config.databaseUrl}`,
      String(config.databaseUrl),
      JSON.stringify(config),
      inspect(config, { depth: 9, showHidden: true }),
      JSON.stringify(Object.entries(config.databaseUrl)),
      structuredCloneText(config.databaseUrl),
    ];
    for (const text of texts) {
      expect(text).not.toContain('hunter2');
    }
    expect(new Secret('x').reveal()).toBe('x');
  });
});

function structuredCloneText(value: unknown): string {
  return inspect(structuredClone(value), { showHidden: true });
}

describe('aliases', () => {
  test('have the same meaning', () => {
    expect(readConfig('plugin-host', { PLUGIN_DIR: '/a:/b' }).pluginDirs).toEqual(['/a', '/b']);
    expect(readConfig('plugin-host', { PLUGIN_DIR: '/a', CODEDOCK_PLUGIN_DIR: '/a' }).pluginDirs).toEqual(['/a']);
  });

  test('that differ are refused', () => {
    expect(problemsOf(() => readConfig('plugin-host', { PLUGIN_DIR: '/a', CODEDOCK_PLUGIN_DIR: '/b' }))).toEqual([
      'CODEDOCK_PLUGIN_DIR and PLUGIN_DIR are both set and differ, but mean the same. Remove one of them.',
    ]);
  });
});

describe('contradictions', () => {
  test.each([
    [{ PLUGIN_RPC_TIMEOUT: '3s' }, /^PLUGIN_RPC_TIMEOUT \(3000ms\) is longer than PLUGIN_GATE_TIMEOUT \(2000ms\)/],
    [{ CODEDOCK_LEASE_HEARTBEAT: '8s' }, /^CODEDOCK_LEASE_HEARTBEAT \(8000ms\) is more than half/],
    [{ CODEDOCK_GRACE_PERIOD: '25s' }, /^RUNNER_DRAIN_TIMEOUT \(25000ms\) is not shorter/],
    [
      { PLUGIN_HOST_URL: '127.0.0.1:1,plugin-host:7070', CODEDOCK_INTERNAL_TOKEN: 'x'.repeat(32) },
      /^PLUGIN_HOST_URL is "plugin-host:7070".*needs TLS/,
    ],
    [{ PLUGIN_HOST_URL: '127.0.0.1:1' }, /^CODEDOCK_INTERNAL_TOKEN is not set, but PLUGIN_HOST_URL is.*all services/],
    [{ CODEDOCK_TLS_CA_FILE: 'ca', CODEDOCK_TLS_KEY_FILE: 'key' }, /^CODEDOCK_TLS_CERT_FILE is not set, but/],
  ])('%j', (environment, expected) => {
    expect(problemsOf(() => readConfig('runner', { ...DATABASE, ...environment }))).toEqual([
      expect.stringMatching(expected),
    ]);
  });

  test('listening outside loopback is fine with TLS', () => {
    const open = { PLUGIN_HOST_LISTEN: '0.0.0.0:7070' };
    expect(problemsOf(() => readConfig('plugin-host', open))).toHaveLength(1);
    const tls = { CODEDOCK_TLS_CA_FILE: 'a', CODEDOCK_TLS_CERT_FILE: 'b', CODEDOCK_TLS_KEY_FILE: 'c' };
    expect(problemsOf(() => readConfig('plugin-host', { ...open, ...tls }))).toEqual([]);
    expect(readConfig('plugin-host', { PLUGIN_HOST_LISTEN: '[::1]:7070' }).pluginHostListen).toEqual({
      host: '::1',
      port: 7070,
    });
  });
});

test('an empty value counts as not set', () => {
  expect(readVariables(['logLevel'], { CODEDOCK_LOG_LEVEL: ' ' })).toEqual({ logLevel: 'info' });
});
