import { AppError, isPluginName } from '@codedock/domain';
import type { PluginHosts, Store } from '../tokens.js';

/**
 * A misspelt name must not look like a success; while no host answers, the name cannot be checked and is taken.
 * @throws AppError `plugin_not_found`.
 */
export async function requireKnownPlugin(store: Store, hosts: PluginHosts, name: string): Promise<void> {
  requirePluginName(name);
  const [{ disabled }, replicas] = await Promise.all([store.plugins.desired(), hosts.plugins.list()]);
  const answered = replicas.flatMap((one) => (one.ok ? [one.value] : []));
  const known = disabled.includes(name) || answered.some((plugins) => plugins.some((plugin) => plugin.name === name));
  if (answered.length > 0 && !known) throw notFound();
}

/** Whether a plugin could have this name at all. @throws AppError `plugin_not_found`. */
export function requirePluginName(name: string): void {
  if (!isPluginName(name)) throw notFound();
}

function notFound(): AppError {
  return new AppError('plugin_not_found', 'There is no plugin with this name.');
}
