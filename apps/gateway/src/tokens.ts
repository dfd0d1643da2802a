import type { PluginHosts } from '@codedock/plugin-bridge';
import type { RunPorts } from '@codedock/runs';
import type { Store } from '@codedock/store';

/** Injection token of the {@link Store}. */
export const STORE = Symbol('Store');
/** Injection token of the {@link RunPorts} that the use cases of runs work with. */
export const RUN_PORTS = Symbol('RunPorts');

/** Injection token of the {@link PluginHosts}. */
export const PLUGIN_HOSTS = Symbol('PluginHosts');

export type { PluginHosts, RunPorts, Store };
