import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { eventually } from '@codedock/testkit';

const run = promisify(execFile);
/** Options that lead to the suite's own images; tests/images/run.mjs, which builds them, says where they are. */
export const storage = JSON.parse(process.env['IMAGES_STORAGE'] ?? 'null') as readonly string[] | null;

/** Runs podman on the suite's own storage and answers its standard output. @throws with its message when it fails. */
export async function podman(...args: readonly string[]): Promise<string> {
  if (storage === null) throw new Error('There are no images here: run `npm run test:images`.');
  const { stdout } = await run('podman', [...storage, ...args], { maxBuffer: 2 ** 26 });
  return stdout;
}

/** How a container ended. */
export interface Ended {
  readonly code: number;
  /** From the stop signal to the end, milliseconds. */
  readonly ms: number;
}

/** A container that runs as the chart runs it: no root, read-only, no capabilities, bounded. */
export interface Container {
  readonly name: string;
  exec(...command: readonly string[]): Promise<string>;
  logs(): Promise<string>;
  /** Waits until the image's own health check passes. */
  healthy(): Promise<void>;
  /** SIGTERM, awaited. */
  stop(): Promise<Ended>;
}

let made = 0;

/** Starts a container of the image `localhost/codedock-<target>:test` on the host's network. */
export async function startContainer(
  target: string,
  env: Readonly<Record<string, string>>,
  mounts: Readonly<Record<string, string>> = {},
): Promise<Container> {
  made += 1;
  const name = `codedock-${process.pid}-${target}-${made}`;
  await podman(
    ...['run', '--detach', '--name', name, '--network', 'host', '--read-only', '--cap-drop', 'ALL'],
    ...[
      '--security-opt',
      'no-new-privileges',
      '--tmpfs',
      '/tmp:rw,mode=1777',
      '--pids-limit',
      '512',
      '--memory',
      '768m',
    ],
    ...Object.entries(mounts).flatMap(([from, to]) => ['--volume', `${from}:${to}:ro`]),
    ...Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
    `localhost/codedock-${target}:test`,
  );
  return {
    name,
    exec: (...command) => podman('exec', name, ...command),
    logs: () => podman('logs', name),
    healthy: () =>
      eventually(
        async () => {
          await podman('healthcheck', 'run', name);
        },
        { timeoutMs: 60_000 },
      ),
    stop: async () => {
      const start = performance.now();
      await podman('kill', '--signal', 'TERM', name);
      const code = Number(await podman('wait', name));
      return { code, ms: Math.round(performance.now() - start) };
    },
  };
}

/** Removes every container of the suite's storage. */
export async function removeContainers(): Promise<void> {
  await podman('rm', '--force', '--all', '--time', '0');
}
