import type { JsonObject } from '@codedock/domain';

/** What the installation wants of its plugins. */
export interface DesiredPlugins {
  readonly epoch: number;
  readonly disabled: readonly string[];
}

export interface PluginStore {
  desired(): Promise<DesiredPlugins>;
  /** Persistent, audited, raises the epoch; idempotent (no raise when nothing changes). */
  disable(input: { plugin: string; actor: string; tenantId: string; reason?: string }): Promise<DesiredPlugins>;
  enable(input: { plugin: string; actor: string; tenantId: string; reason?: string }): Promise<DesiredPlugins>;
  /** Called by a deployment: migration job and start command. */
  raiseEpoch(actor: string): Promise<DesiredPlugins>;
  /** Copy of the newest snapshot (ports, subscribers, failure policies) under an epoch; an older epoch never replaces a newer. */
  saveSnapshot(epoch: number, snapshot: JsonObject): Promise<void>;
  loadSnapshot(): Promise<{ epoch: number; snapshot: JsonObject } | undefined>;
}
