import type { JsonObject, TimerClock } from '@codedock/domain';
import type { CapabilitySigner } from '../capability.js';

/** What the bridge logs to; pino's shape. */
export interface BridgeLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** What the bridge counts. All optional; must not throw. */
export interface BridgeMetrics {
  /** A ledger event was not sent: queue full, or no replica took it. */
  notificationDropped?(event: string): void;
  /** Plugin-hosts whose Watch lives, and all whose addresses are known. */
  pluginHosts?(counts: { readonly reachable: number; readonly known: number }): void;
}

/** The database's copy of the newest chain: survives a restart of this process. */
export interface EpochStore {
  load(): Promise<{ readonly epoch: number; readonly snapshot: JsonObject } | undefined>;
  /** An older epoch never replaces a newer one. */
  save(epoch: number, snapshot: JsonObject): Promise<void>;
}

/** Client certificate and trust for mTLS to the plugin-hosts, PEM. */
export interface BridgeTls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** How to reach the plugin-hosts. */
export interface PluginHostsOptions {
  /** `host:port` (or `unix:/path`); every address a name resolves to is one replica of the same chain. Empty: no plugins. */
  readonly urls: readonly string[];
  /** Names this process in the hosts' logs: service and instance. */
  readonly clientName?: string;
  /** Sent as `authorization: Bearer …` with every call. */
  readonly token?: string;
  readonly tls?: BridgeTls;
  /** Milliseconds of a gate unless a subscriber declares more; 2,000. */
  readonly gateTimeoutMs?: number;
  readonly clock?: TimerClock;
  /** By what time capabilities expire, milliseconds since the epoch: one for all who sign and check them. Default: the clock's. */
  readonly authorityNow?: () => number;
  readonly logger?: BridgeLogger;
  readonly metrics?: BridgeMetrics;
  readonly epochStore?: EpochStore;
  /** Authority for call-backs of the plugins that are asked; none when absent. */
  readonly signCapability?: CapabilitySigner;
  /**
   * True while the current call belongs to a trace. It then travels as an RPC of its own instead of over the stream of
   * its replica, so that instrumentation carries the trace on; never when absent.
   */
  readonly traced?: () => boolean;
  /** Milliseconds between resolutions of the names; 5,000. */
  readonly resolveEveryMs?: number;
  /** Milliseconds the last snapshot serves after its Watch broke; 10,000. */
  readonly snapshotServesMs?: number;
  /** IP addresses of a name; the system's resolver. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}
