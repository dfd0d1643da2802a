import { AppError, offeredTools } from '@codedock/domain';
import type { PluginHosts } from '@codedock/plugin-bridge';
import type { Store } from '@codedock/store';
import type { Authority } from './plugin-authority.js';
import { sessionWork } from './session-work.js';

/** Most names one call sets. */
const MAX_NAMES = 500;

type Parts = Pick<Store, 'runs' | 'agents' | 'sessions'>;

/** Names the model is offered now in the session of a call-back. */
export async function activeTools(
  store: Parts,
  hosts: Pick<PluginHosts, 'tools'>,
  authority: Authority,
): Promise<string[]> {
  const { tenant, session } = authority.capability;
  const { config, plugins } = await toolsOf(store, hosts, authority);
  const active = await store.sessions.activeTools(tenant, session);
  const listed = new Set(config.tools);
  const own = (name: string) => (listed.has(name) ? { name } : undefined);
  return offeredTools({ config, own, plugins, active }).map(({ name }) => name);
}

/**
 * Sets the plugin tools that are offered from the next model call on; the profile's own stay whatever is named.
 * @throws AppError `invalid_request` naming what is no tool here.
 */
export async function setActiveTools(
  store: Parts,
  hosts: Pick<PluginHosts, 'tools'>,
  authority: Authority,
  names: readonly string[],
): Promise<void> {
  const { tenant, session } = authority.capability;
  const { config, plugins } = await toolsOf(store, hosts, authority);
  const denied = new Set(config.deniedTools);
  const known = new Set([...config.tools, ...plugins.map(({ name }) => name)].filter((name) => !denied.has(name)));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0 || names.length > MAX_NAMES) {
    const shown = unknown.slice(0, 5).map((name) => JSON.stringify(name.slice(0, 64)));
    throw new AppError(
      'invalid_request',
      unknown.length > 0
        ? `SetActiveTools: no tool of this session is named ${shown.join(', ')}; GetActiveTools and the profile tell which there are.`
        : `SetActiveTools takes at most ${MAX_NAMES} names.`,
    );
  }
  await store.sessions.setActiveTools({
    tenantId: tenant,
    sessionId: session,
    names: [...new Set(names)],
    actor: `plugin ${authority.plugin}`,
  });
}

async function toolsOf(store: Parts, hosts: Pick<PluginHosts, 'tools'>, authority: Authority) {
  const { config, principal } = await sessionWork(store, authority);
  return { config, plugins: hosts.tools(principal) };
}
