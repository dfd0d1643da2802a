import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { root } from '../workspace/root.mjs';
import { prefixed } from './output.mjs';

const READY_MS = 30_000;
const STOP_MS = 35_000;

/** Starts plugin-host, gateway and runner as processes; `ready()` resolves when a run would pass all gates. */
export function startServices({ folder, database, secrets, plugins, telemetry = {} }) {
  const children = [];
  let stopping = false;
  let reportEnd;
  const anyEnded = new Promise((resolve) => {
    reportEnd = resolve;
  });

  const launch = (name, env) => {
    const child = spawn(process.execPath, ['--enable-source-maps', join(root, 'apps', name, 'dist', 'main.js')], {
      cwd: root,
      env: { ...process.env, ...env },
      // An open pipe as stdin lets the service notice that the starter is gone, however it went.
      stdio: ['pipe', 'pipe', 'pipe'],
      // Ctrl-C reaches the starter alone; it stops the services in order.
      detached: true,
    });
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => prefixed(name, readable(line)));
    }
    const ended = new Promise((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    ended.then((status) => {
      if (!stopping) reportEnd({ name, status });
    });
    children.push({ name, child, ended });
  };

  const started = (async () => {
    const wanted = Number(/:(\d+)$/.exec(process.env.CODEDOCK_HTTP_LISTEN ?? '')?.[1] ?? 8080);
    const [http, hostApi, gates, hostHealth, runnerHealth] = await freePorts([wanted, 0, 0, 0, 0]);
    const shared = {
      ...telemetry,
      CODEDOCK_INTERNAL_TOKEN: secrets.internalToken,
      CODEDOCK_CAPABILITY_KEY: secrets.capabilityKey,
      CODEDOCK_EXIT_WITH_PARENT: '1',
    };
    const stored = { DATABASE_URL: database.url, QUEUE_URL: database.queueUrl, PLUGIN_HOST_URL: `127.0.0.1:${gates}` };
    launch('plugin-host', {
      ...shared,
      CODEDOCK_PLUGIN_DIR: plugins,
      PLUGIN_DIR: undefined,
      PLUGIN_HOST_LISTEN: `127.0.0.1:${gates}`,
      CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN: `127.0.0.1:${hostHealth}`,
      CODEDOCK_HOST_API_URL: `127.0.0.1:${hostApi}`,
      // The plugin-host holds no credentials of database, queue or provider.
      DATABASE_URL: undefined,
      DATABASE_DIRECT_URL: undefined,
      QUEUE_URL: undefined,
      OPENAI_API_KEY: undefined,
      CODEDOCK_SECRETS_KEY: undefined,
    });
    launch('gateway', {
      ...shared,
      ...stored,
      CODEDOCK_HTTP_LISTEN: `127.0.0.1:${http}`,
      CODEDOCK_HOST_API_LISTEN: `127.0.0.1:${hostApi}`,
      ...(process.env.CODEDOCK_SECRETS_KEY_FILE
        ? {}
        : { CODEDOCK_SECRETS_KEY: process.env.CODEDOCK_SECRETS_KEY || secrets.secretsKey }),
      CODEDOCK_PROFILES_FILE: process.env.CODEDOCK_PROFILES_FILE ?? join(root, 'examples', 'agents.yaml'),
    });
    launch('runner', { ...shared, ...stored, CODEDOCK_RUNNER_HEALTH_LISTEN: `127.0.0.1:${runnerHealth}` });
    return { url: `http://127.0.0.1:${http}`, runnerHealth: `http://127.0.0.1:${runnerHealth}` };
  })();

  return {
    anyEnded,
    async ready(signal) {
      const { url, runnerHealth } = await started;
      const deadline = performance.now() + READY_MS;
      const failed = anyEnded.then(({ name, status }) => {
        throw new Error(`${name} ended with ${status} before it was ready; its lines are above.`);
      });
      failed.catch(() => {});
      for (const address of [`${url}/readyz`, `${runnerHealth}/readyz`]) {
        while (!(await Promise.race([answers(address), failed]))) {
          signal.throwIfAborted();
          if (performance.now() > deadline) throw new Error(`${address} was not ready within ${READY_MS / 1000} s.`);
          await delay(50);
        }
      }
      return { url, folder };
    },
    async stop() {
      stopping = true;
      await started.catch(() => {});
      // The runner first: it hands back to nobody and needs both others; the gateway last serves the plugin-host.
      for (const name of ['runner', 'plugin-host', 'gateway']) {
        const service = children.find((child) => child.name === name);
        if (service === undefined) continue;
        service.child.kill('SIGTERM');
        const timer = setTimeout(() => service.child.kill('SIGKILL'), STOP_MS);
        await service.ended;
        clearTimeout(timer);
      }
    },
  };
}

async function answers(address) {
  try {
    const response = await fetch(address, { signal: AbortSignal.timeout(1_000), headers: { connection: 'close' } });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

/** Loopback ports: each wanted one if it is free, else any other. No two are the same. */
async function freePorts(wanted) {
  const held = await Promise.all(wanted.map(holdPort));
  const ports = held.map((server) => server.address().port);
  await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Listens on the wanted port, or on any where it is 0 or taken. */
function holdPort(wanted) {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => (wanted === 0 ? reject(error) : resolve(holdPort(0))));
    server.listen(wanted, '127.0.0.1', () => resolve(server));
  });
}

const SAID_OTHERWISE = new Set(['level', 'time', 'app', 'msg', 'err', 'context', 'pid', 'hostname']);
const LONGEST_FIELD = 120;

// Services log JSON lines for machines; a person at a terminal reads level, message and what it is about.
function readable(line) {
  if (!line.startsWith('{')) return line;
  try {
    const { level, msg, err, ...rest } = JSON.parse(line);
    const fields = Object.entries(rest)
      .filter(([name, value]) => !SAID_OTHERWISE.has(name) && ['string', 'number', 'boolean'].includes(typeof value))
      .map(([name, value]) => `${name}=${value}`)
      .filter((field) => field.length <= LONGEST_FIELD);
    return [typeof level === 'string' ? level : '', msg ?? line, err?.message, fields.join(' ')]
      .filter(Boolean)
      .join('  ');
  } catch {
    return line;
  }
}
