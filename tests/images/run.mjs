#!/usr/bin/env node
// Builds the four images offline from bases made of this machine's programs, then runs them as containers beside a real
// PostgreSQL and Redis. Arguments go to Jest; the last line is "N passed, N failed". Without the container tools, or
// without root, it is skipped, or, with REQUIRE_IMAGES=1, a failure.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { executableOnPath } from '../../scripts/workspace/on-path.mjs';
import { prepare } from '../../scripts/workspace/prepare.mjs';
import { root } from '../../scripts/workspace/root.mjs';
import { runJest } from '../../scripts/workspace/run-jest.mjs';
import { buildImages, removeImages } from './build.mjs';
import { folder, podmanConfiguration, storage } from './storage.mjs';

const missing = ['buildah', 'podman', 'runc', 'tini-static'].filter((program) => !executableOnPath(program));
const reasons = [
  ...(missing.length > 0 ? [`no ${missing.join(', ')} on PATH (Debian: apt install buildah podman runc tini)`] : []),
  ...(process.getuid?.() === 0 ? [] : ['only root may make these containers here']),
];
if (reasons.length > 0) {
  for (const reason of reasons) console.log(`skipped: the images, ${reason}`);
  const required = process.env.REQUIRE_IMAGES === '1';
  console.log(`0 passed, ${required ? reasons.length : 0} failed`);
  process.exit(required ? 1 : 0);
}

await prepare();
console.log('codedock  building the images …');
try {
  buildImages();
  process.env.CONTAINERS_CONF = podmanConfiguration();
  process.env.IMAGES_STORAGE = JSON.stringify(storage);
  process.exitCode = await runJest(['--config', join(root, 'tests/images/jest.config.cjs'), ...process.argv.slice(2)], {
    report: 'images-report.json',
  });
} catch (error) {
  console.error(error.message);
  console.log('0 passed, 1 failed');
  process.exitCode = 1;
} finally {
  removeImages();
  rmSync(folder, { recursive: true, force: true });
}
