import type { Hooks } from '@codedock/hooks';
import type { gate } from '@codedock/proto';

/** Injection token of the {@link PluginHosts}. */
export const PLUGIN_HOSTS = Symbol('PluginHosts');

/** One replica's plugins, or why it could not be asked. */
export type ReplicaPlugins =
  | { readonly replica: string; readonly plugins: readonly gate.PluginStatus[] }
  | { readonly replica: string; readonly unreachable: string };

/** The plugin-hosts as the gateway uses them. */
export interface PluginHosts {
  readonly hooks: Hooks;
  /** Newest state of every replica that has reported. */
  snapshots(): readonly gate.Snapshot[];
  listPlugins(): Promise<readonly ReplicaPlugins[]>;
  /** Lets every replica read the desired state now; how many did. Never rejects. */
  refresh(): Promise<number>;
  close(): Promise<void>;
}
