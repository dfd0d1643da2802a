import type { JsonValue } from '@codedock/domain';

/** Whose value a key has: the tenant's own, or the installation's for tenants without one. */
export type ValueScope = 'tenant' | 'global';

/** Which value is meant. */
export interface PluginKey {
  readonly tenantId: string;
  /** Folder name of the plugin. */
  readonly plugin: string;
  readonly key: string;
}

/** A change of a value: of the tenant's own, or with `global` of the installation's. */
export interface PluginValueChange extends PluginKey {
  readonly global?: boolean;
  /** Who changes it, for the audit of that tenant. */
  readonly actor: string;
}

/** What is shown of a value, and all that is ever shown of a secret. */
export interface PluginValueView {
  readonly key: string;
  readonly scope: ValueScope;
  readonly updatedBy: string;
  readonly updatedAt: string;
}

/** An encrypted secret. What was encrypted with it: the tenant it is stored for, the plugin and the key. */
export interface SealedSecret {
  /** Names the encryption key. */
  readonly keyId: string;
  readonly bytes: Uint8Array;
  /** The tenant it is stored for: the asking one, or the installation. */
  readonly owner: string;
}

/** Settings and secrets of plugins. A tenant's own value lies over the installation's. Every change is audited with it. */
export interface PluginValueStore {
  /** Undefined when there is none; the value may be JSON null. */
  setting(of: PluginKey): Promise<{ readonly value: JsonValue } | undefined>;
  setSetting(change: PluginValueChange & { readonly value: JsonValue }): Promise<void>;
  /** False when there was none. */
  removeSetting(change: PluginValueChange): Promise<boolean>;
  /** By key; both scopes where both have one. */
  settings(of: Omit<PluginKey, 'key'>): Promise<readonly (PluginValueView & { readonly value: JsonValue })[]>;
  secret(of: PluginKey): Promise<SealedSecret | undefined>;
  setSecret(change: PluginValueChange & { readonly sealed: Omit<SealedSecret, 'owner'> }): Promise<void>;
  removeSecret(change: PluginValueChange): Promise<boolean>;
  secrets(of: Omit<PluginKey, 'key'>): Promise<readonly PluginValueView[]>;
  /** The tenant that global values are stored for. */
  readonly globalOwner: string;
}
