import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Binaries } from './binaries.js';
import type { RunIdentity } from './run-identity.js';
import { serverEnvironment } from './server-environment.js';

/** How to launch one server. */
export interface ServerLaunch {
  readonly binaries: Binaries;
  readonly clusterDir: string;
  readonly port: number;
  readonly settings: Readonly<Record<string, string>>;
  readonly identity: RunIdentity | undefined;
  /** Folder that goes away with the server, also when the starter is killed. */
  readonly removeAtEnd: string | undefined;
  readonly log: (line: string) => void;
}

/** A launched server. */
export interface ServerProcess {
  readonly exited: Promise<number | null>;
  readonly lastLines: readonly string[];
  hasExited(): boolean;
  /** Asks for a fast shutdown; the same happens when this process dies. */
  release(): void;
}

const KEPT_LINES = 40;

// The shell holds the read end of a pipe whose only writer is the starter. When the starter ends in any way, kill -9
// included, `read` sees the end of file and the server gets a fast shutdown. The check of the working folder keeps the
// signal from a process that got the server's pid; where there is no /proc it is empty.
const GUARDIAN = `
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
(
  trap '' INT TERM HUP
  read -r _ <&3
  case "$(readlink "/proc/$server/cwd" 2>/dev/null)" in
    "$CLUSTER_DIR" | "") kill -INT "$server" 2>/dev/null ;;
  esac
) &
guard=$!
wait "$server"
code=$?
kill -KILL "$guard" 2>/dev/null
[ -z "$REMOVE_AT_END" ] || rm -rf -- "$REMOVE_AT_END"
exit "$code"
`;

/** Launches PostgreSQL in its own session, so that a Ctrl-C at the terminal reaches the starter only. */
export function launchServer(launch: ServerLaunch): ServerProcess {
  const child = spawnServer(launch);
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream) {
      createInterface({ input: stream }).on('line', (line) => {
        lastLines.push(line);
        if (lastLines.length > KEPT_LINES) {
          lastLines.shift();
        }
        launch.log(line);
      });
    }
  }
  let ended = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      ended = true;
      lastLines.push(error.message);
      resolve(null);
    });
    child.once('exit', (code) => {
      ended = true;
      child.stdin?.destroy();
      resolve(code);
    });
  });
  child.stdin?.on('error', () => undefined);
  return {
    exited,
    lastLines,
    hasExited: () => ended,
    release: () => {
      if (process.platform === 'win32') {
        child.kill();
      } else {
        child.stdin?.destroy();
      }
    },
  };
}

function spawnServer(launch: ServerLaunch): ChildProcess {
  const { binaries, clusterDir } = launch;
  const parameters = ['-D', clusterDir, '-p', String(launch.port)];
  for (const [name, value] of Object.entries(launch.settings)) {
    parameters.push('-c', `${name}=${value}`);
  }
  const environment = serverEnvironment(binaries);
  if (process.platform === 'win32') {
    return spawn(binaries.postgres, parameters, { env: environment, stdio: 'pipe' });
  }
  return spawn('/bin/sh', ['-c', GUARDIAN, 'sh', binaries.postgres, ...parameters], {
    env: {
      ...environment,
      CLUSTER_DIR: clusterDir,
      REMOVE_AT_END: launch.removeAtEnd ?? '',
    },
    cwd: '/',
    stdio: 'pipe',
    detached: true,
    ...(launch.identity ?? {}),
  });
}
