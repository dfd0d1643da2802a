import { isJsonObject, type JsonObject, type JsonValue } from '@codedock/domain';
import { isPort, type Port } from '@codedock/proto';
import { compileMatch, type Match } from '../ports/match.js';
import { type FailurePolicy, portSpec } from '../ports/port-table.js';
import type { ViewSubscriber } from './chain-view.js';
import type { BridgeLogger, EpochStore } from './options.js';

/** What is remembered of a plugin on a port. */
export interface RememberedSubscriber {
  readonly plugin: string;
  readonly failurePolicy: FailurePolicy;
  readonly matchJson: string;
  readonly matches: Match | undefined;
}

/** The last chain that was seen: by this process, else by any other through the database's copy. */
export interface RememberedChain {
  readonly epoch: number;
  readonly ports: ReadonlyMap<Port, readonly RememberedSubscriber[]>;
}

/** Keeps the last chain and its copy in the database. Undefined `chain`: nothing is known, which counts as closed. */
export class ChainMemory {
  chain: RememberedChain | undefined;
  /** False while a copy may exist that has not been read. */
  loaded: boolean;
  private savedText = '';
  private saving: Promise<void> = Promise.resolve();

  constructor(
    private readonly store: EpochStore | undefined,
    private readonly logger: BridgeLogger | undefined,
  ) {
    this.loaded = store === undefined;
  }

  /** Reads the copy, once; what this process has seen meanwhile wins. False when it could not be read: try again. */
  async load(): Promise<boolean> {
    if (this.store === undefined || this.loaded) return true;
    try {
      const copy = await this.store.load();
      this.loaded = true;
      if (copy !== undefined && (this.chain === undefined || this.chain.epoch < copy.epoch)) {
        this.chain = { epoch: copy.epoch, ports: portsFromJson(copy.snapshot) };
      }
    } catch (error) {
      this.logger?.warn({ err: error }, 'the copy of the plugin chain could not be read; trying again');
    }
    return this.loaded;
  }

  /** The chain as it is now. One without plugins does not replace one with plugins under the same epoch. */
  remember(epoch: number, ports: ReadonlyMap<Port, readonly ViewSubscriber[]>): void {
    const known = this.chain;
    if (!this.loaded && ports.size === 0) return;
    if (known !== undefined && (epoch < known.epoch || (epoch === known.epoch && ports.size === 0))) return;
    this.chain = { epoch, ports };
    const snapshot = portsToJson(ports);
    const text = `${epoch} ${JSON.stringify(snapshot)}`;
    if (this.store === undefined || text === this.savedText) return;
    this.savedText = text;
    const { store } = this;
    this.saving = this.saving
      .then(() => store.save(epoch, snapshot))
      .catch((error: unknown) => {
        this.savedText = '';
        this.logger?.warn({ err: error }, 'the copy of the plugin chain could not be stored');
      });
  }

  /** Resolves when everything remembered so far is stored or has failed to be. */
  settled(): Promise<void> {
    return this.saving;
  }
}

function portsToJson(ports: ReadonlyMap<Port, readonly ViewSubscriber[]>): JsonObject {
  return {
    ports: [...ports].map(([port, subscribers]) => ({
      port,
      subscribers: subscribers.map(({ plugin, failurePolicy, matchJson }) => ({
        plugin,
        failurePolicy,
        match: matchJson,
      })),
    })),
  };
}

function portsFromJson(snapshot: JsonObject): ReadonlyMap<Port, readonly RememberedSubscriber[]> {
  const ports = new Map<Port, readonly RememberedSubscriber[]>();
  for (const entry of items(snapshot['ports'])) {
    const port = entry['port'];
    if (typeof port !== 'string' || !isPort(port)) continue;
    const subscribers = items(entry['subscribers']).map((one) => {
      const matchJson = typeof one['match'] === 'string' ? one['match'] : '';
      return {
        plugin: typeof one['plugin'] === 'string' ? one['plugin'] : '',
        failurePolicy: one['failurePolicy'] === 'open' ? portSpec(port).failureDefault : ('closed' as const),
        matchJson,
        matches: compileMatch(matchJson),
      };
    });
    if (subscribers.length > 0) ports.set(port, subscribers);
  }
  return ports;
}

function items(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
