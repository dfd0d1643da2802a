import { execFile } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { repositoryRoot } from '@codedock/testkit';
import { podman, storage } from './podman.js';

const run = promisify(execFile);
const BUILD_STAGE = /^FROM \$\{BUILD_BASE\} AS build\n[\s\S]*?(?=^FROM )/m;

/**
 * Builds a target's image once more, from a tree that was made outside of any container: by the Dockerfile itself, but
 * for the stage that builds. `folder` has the tree under the target's name. Resolves to the digests of its layers.
 */
export async function layersOfRebuilt(target: string, folder: string, version: string): Promise<readonly string[]> {
  const dockerfile = await readFile(path.join(repositoryRoot(), 'deploy/docker/Dockerfile'), 'utf8');
  const [tini] = /(?<=^COPY --from=build )\S*tini\S*/m.exec(dockerfile) ?? [];
  if (tini === undefined || !BUILD_STAGE.test(dockerfile)) throw new Error('the Dockerfile has no stage that builds');
  const rest = dockerfile.replace(BUILD_STAGE, '').replaceAll('COPY --from=build /out/', 'COPY ');
  await writeFile(path.join(folder, 'Dockerfile'), rest.replace(`COPY --from=build ${tini}`, 'COPY tini'));
  await copyFile(tini, path.join(folder, 'tini'));
  const tag = `localhost/codedock-${target}:rebuilt`;
  await run(
    'buildah',
    [
      ...(storage ?? []),
      ...['build', '--layers', '--no-cache', '--format', 'docker', '--timestamp', '0', '--network', 'none'],
      ...['--build-arg', 'BASE=localhost/codedock-base:node', '--build-arg', `VERSION=${version}`],
      ...['--target', target, '-t', tag, folder],
    ],
    { env: { ...process.env, BUILDAH_ISOLATION: 'chroot' }, maxBuffer: 2 ** 26 },
  );
  return layersOf(tag);
}

/** Digests of the layers of an image: of names, bytes, owners, modes and times of all its files. */
export async function layersOf(image: string): Promise<readonly string[]> {
  const [{ RootFS }] = JSON.parse(await podman('image', 'inspect', image)) as [{ RootFS: { Layers: string[] } }];
  return RootFS.Layers;
}
