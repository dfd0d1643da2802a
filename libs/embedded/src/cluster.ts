import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Binaries } from './binaries.js';
import { EmbeddedPostgresError } from './errors.js';
import { canEnter, type RunIdentity } from './run-identity.js';
import { serverEnvironment } from './server-environment.js';

const run = promisify(execFile);

/** PostgreSQL roles of a cluster: the superuser, and the owner of the application's database. */
export const ADMIN_ROLE = 'codedock_admin';
export const APP_ROLE = 'codedock';

/** Random passwords of one cluster, kept beside it in `credentials.json` (mode 0600). */
export interface Credentials {
  readonly adminPassword: string;
  readonly appPassword: string;
}

/** An initialised cluster. `clusterDir` is its real path. */
export interface Cluster {
  readonly clusterDir: string;
  readonly credentials: Credentials;
}

/** How to make a cluster. `ephemeral` skips waiting for the disk. */
export interface ClusterRequest {
  readonly dataDir: string;
  readonly binaries: Binaries;
  readonly identity: RunIdentity | undefined;
  readonly ephemeral: boolean;
}

// Where a cluster goes when root's data folder lies below a folder that the server's user cannot enter.
const ROOT_CLUSTERS = '/var/lib/codedock';

/**
 * Opens the cluster of `dataDir`, or makes it with initdb. A cluster appears complete or not at all.
 * `<dataDir>/cluster` is the cluster, or (root, below a folder that uid 65534 cannot enter) a link to it.
 */
export async function openCluster(request: ClusterRequest): Promise<Cluster> {
  const { dataDir } = request;
  const location = path.join(dataDir, 'cluster');
  const existing = await realpath(location).catch(() => undefined);
  const credentials = await readCredentials(dataDir);
  if (existing) {
    await checkCluster(existing, request);
    if (!credentials) {
      throw new EmbeddedPostgresError(
        `${path.join(dataDir, 'credentials.json')} is missing, so nobody can log in to ${existing}. ` +
          'Restore the file from a backup, or delete the data folder to start empty.',
      );
    }
    return { clusterDir: existing, credentials };
  }
  if (await lstat(location).catch(() => undefined)) {
    throw new EmbeddedPostgresError(
      `${location} points to a folder that is missing. Bring that folder back, or delete the link to start empty.`,
    );
  }
  const made = credentials ?? (await makeCredentials(dataDir));
  const target = await chooseLocation(request, location);
  await makeCluster(target, made, request);
  if (target !== location) {
    await symlink(target, location);
  }
  return { clusterDir: await realpath(location), credentials: made };
}

/** The passwords of `dataDir`; absent when it has none. */
export async function readCredentials(dataDir: string): Promise<Credentials | undefined> {
  const file = path.join(dataDir, 'credentials.json');
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') {
      return undefined;
    }
    throw new EmbeddedPostgresError(`${file} cannot be read. Start as the user who made it.`, {
      cause: error,
    });
  });
  return text === undefined ? undefined : (JSON.parse(text) as Credentials);
}

async function makeCredentials(dataDir: string): Promise<Credentials> {
  const credentials: Credentials = {
    adminPassword: randomBytes(24).toString('base64url'),
    appPassword: randomBytes(24).toString('base64url'),
  };
  const file = path.join(dataDir, 'credentials.json');
  await writeFile(`${file}.new`, JSON.stringify(credentials), { mode: 0o600 });
  await chmod(`${file}.new`, 0o600);
  await rename(`${file}.new`, file);
  return credentials;
}

async function chooseLocation(request: ClusterRequest, preferred: string): Promise<string> {
  const { dataDir, identity } = request;
  if (identity === undefined || (await canEnter(dataDir, identity))) {
    return preferred;
  }
  const digest = createHash('sha256')
    .update(await realpath(dataDir))
    .digest('hex')
    .slice(0, 16);
  await mkdir(ROOT_CLUSTERS, { recursive: true });
  await chmod(ROOT_CLUSTERS, 0o755);
  const elsewhere = path.join(ROOT_CLUSTERS, `cluster-${digest}`);
  if (await lstat(elsewhere).catch(() => undefined)) {
    throw new EmbeddedPostgresError(
      `${elsewhere} already holds a cluster for ${dataDir}, but ${preferred} does not point to it. ` +
        `Link it (ln -s ${elsewhere} ${preferred}) to keep its data, or delete it.`,
    );
  }
  return elsewhere;
}

async function makeCluster(target: string, credentials: Credentials, request: ClusterRequest) {
  const { binaries, identity } = request;
  // A sibling folder, so that the final rename stays on one file system.
  const workDir = await mkdtemp(`${target}.new-`);
  const fresh = path.join(workDir, 'cluster');
  const passwordFile = path.join(workDir, 'password');
  try {
    await mkdir(fresh, { mode: 0o700 });
    await writeFile(passwordFile, `${credentials.adminPassword}\n`, { mode: 0o600 });
    if (identity) {
      for (const owned of [workDir, fresh, passwordFile]) {
        await chown(owned, identity.uid, identity.gid);
      }
    }
    const parameters = [
      '-D',
      fresh,
      `--username=${ADMIN_ROLE}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--no-instructions',
      ...(request.ephemeral ? ['--no-sync'] : []),
    ];
    await run(binaries.initdb, parameters, {
      cwd: workDir,
      env: serverEnvironment(binaries),
      ...(identity ?? {}),
    });
    await rename(fresh, target);
  } catch (cause) {
    const output = (cause as { stderr?: string }).stderr?.trim();
    throw new EmbeddedPostgresError(
      `initdb could not make ${target}${output ? `: ${output}` : ''}. ` +
        'Check free space and rights of the folder, or set DATABASE_URL to your own PostgreSQL.',
      { cause },
    );
  } finally {
    await rm(workDir, { recursive: true, force: true });
  }
}

async function checkCluster(clusterDir: string, request: ClusterRequest): Promise<void> {
  const [major, owner] = await Promise.all([
    readFile(path.join(clusterDir, 'PG_VERSION'), 'utf8').catch(() => ''),
    lstat(clusterDir),
  ]);
  if (major.trim() !== '18') {
    throw new EmbeddedPostgresError(
      `${clusterDir} was made by PostgreSQL "${major.trim()}", this one is 18. ` +
        'Dump it with the old version and restore it, or delete the data folder to start empty.',
    );
  }
  const expected = request.identity?.uid ?? process.getuid?.();
  if (expected !== undefined && owner.uid !== expected) {
    throw new EmbeddedPostgresError(
      `${clusterDir} belongs to uid ${owner.uid}, the server would run as uid ${expected}. ` +
        'Start as the user who made it, or give the folder to that uid with chown -R.',
    );
  }
}
