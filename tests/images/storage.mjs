import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/workspace/root.mjs';

/** Where the suite keeps its images and containers while it runs. */
export const folder = join(root, '.codedock', 'images');

/** Options of buildah and podman that keep images and containers of the suite apart from those of the machine. */
export const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];

/** The path of a configuration for podman that works without systemd, without CAP_SYS_RESOURCE and on any cgroups. */
export function podmanConfiguration() {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'containers.conf');
  writeFileSync(
    file,
    [
      '[containers]',
      'default_ulimits = ["nofile=20000:20000", "nproc=30000:30000"]',
      '[engine]',
      'runtime = "runc"',
      'cgroup_manager = "cgroupfs"',
      'events_logger = "file"',
      '',
    ].join('\n'),
  );
  return file;
}
