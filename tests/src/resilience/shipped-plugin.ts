import { cp, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';

/** Puts a plugin of `plugin/`, as it is shipped, into a root. */
export async function installShipped(root: string, name: string): Promise<void> {
  const source = path.join(repositoryRoot(), 'plugin', name);
  const target = path.join(root, name);
  await mkdir(target, { mode: 0o755 });
  await cp(path.join(source, name), path.join(target, name));
  await cp(path.join(source, 'plugin.json'), path.join(target, 'plugin.json'));
}
