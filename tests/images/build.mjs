import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/workspace/root.mjs';
import { makeLocalBases } from './local-base.mjs';
import { storage } from './storage.mjs';

const targets = ['gateway', 'runner', 'plugin-host', 'migrate'];
const bases = { runtime: 'localhost/codedock-base:node', build: 'localhost/codedock-base:npm' };

/** Runs buildah, which needs no daemon; its output is shown when it fails. */
function buildah(args, options = {}) {
  try {
    return execFileSync('buildah', [...storage, ...args], {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, BUILDAH_ISOLATION: 'chroot' },
      ...options,
    });
  } catch (error) {
    throw new Error(
      `buildah ${args.slice(0, 2).join(' ')} failed:\n${error.stdout?.slice(-4_000)}\n${error.stderr?.slice(-4_000)}`,
    );
  }
}

/**
 * Builds every target from local bases, offline: packages come from npm's cache, which the installation of this clone
 * fills where it was made from scratch. Where a package is not in the cache, npm's registry is asked. Layers are kept, so
 * that the targets share the build stage. Their names are `localhost/codedock-<target>:test`.
 */
export function buildImages() {
  makeLocalBases(bases, buildah);
  const npm = (name) => execFileSync('npm', ['config', 'get', name], { cwd: root, encoding: 'utf8' }).trim();
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const target of targets) {
    const tag = `localhost/codedock-${target}:test`;
    const build = (offline) =>
      buildah([
        'build',
        '--layers',
        '--format',
        'docker',
        '--timestamp',
        '0',
        ...(offline ? ['--network', 'none'] : []),
        '-f',
        join(root, 'deploy/docker/Dockerfile'),
        '--target',
        target,
        '-t',
        tag,
        '--build-arg',
        `BASE=${bases.runtime}`,
        '--build-arg',
        `BUILD_BASE=${bases.build}`,
        '--build-arg',
        `NPM_CONFIG_REGISTRY=${npm('registry')}`,
        '--build-arg',
        `NPM_CONFIG_OFFLINE=${offline ? 'true' : ''}`,
        '--build-arg',
        `VERSION=${version}`,
        '--volume',
        `${npm('cache')}:/root/.npm`,
        root,
      ]);
    try {
      build(true);
    } catch (error) {
      if (!/ENOTCACHED/.test(error.message)) throw error;
      console.log("images: npm's cache lacks a package, the registry is asked");
      build(false);
    }
  }
}

/** Removes the images and their layers. */
export function removeImages() {
  buildah(['rmi', '--all', '--force']);
}
