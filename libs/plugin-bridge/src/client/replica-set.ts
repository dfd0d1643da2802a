import type { Clock } from '@codedock/domain';
import type { Port } from '@codedock/proto';
import type { MatchSubject } from '../ports/match.js';
import { type HostAddress, type ReplicaAddress, replicasOf } from './addresses.js';
import { type ChainDifference, chainDifferences } from './chain-differences.js';
import type { ChainMemory } from './chain-memory.js';
import { type ChainView, holds } from './chain-view.js';
import type { BridgeLogger, BridgeMetrics } from './options.js';
import { Replica, type ReplicaOptions } from './replica.js';
import { failingStanding, mergedPorts, NO_PLUGINS, type Standing, servingStanding } from './standing.js';

/** What the set needs beside the addresses. */
export interface ReplicaSetOptions {
  readonly replica: Omit<ReplicaOptions, 'onChange'>;
  readonly resolve: (host: string) => Promise<readonly string[]>;
  readonly resolveEveryMs: number;
  readonly snapshotServesMs: number;
  readonly memory: ChainMemory;
  readonly clock: Clock;
  readonly logger: BridgeLogger | undefined;
  readonly metrics: BridgeMetrics | undefined;
}

/** All plugin-hosts: resolves names, keeps one replica per address, and derives the standing from their snapshots. */
export class ReplicaSet {
  standing: Standing;
  /** Newest chain epoch seen anywhere. */
  epoch = 0;

  private readonly replicas = new Map<string, Replica>();
  private readonly listeners = new Set<(standing: Standing) => void>();
  private readonly stop = new AbortController();
  private everServed = false;
  private expiring = false;

  constructor(
    private readonly addresses: readonly HostAddress[],
    private readonly options: ReplicaSetOptions,
  ) {
    this.standing =
      addresses.length === 0
        ? NO_PLUGINS
        : failingStanding('not ready', 'No plugin-host has reported its plugins yet.');
  }

  /** Begins to resolve and to watch; ends with `close`. */
  start(): void {
    if (this.addresses.length === 0) return;
    void this.keepLoading();
    void this.keepResolving();
  }

  get all(): readonly Replica[] {
    return [...this.replicas.values()];
  }

  /** Called after every change of the standing; the returned function ends that. */
  onStanding(listener: (standing: Standing) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** An answer carried this epoch. */
  sawEpoch(epoch: number): void {
    if (epoch <= this.epoch) return;
    this.epoch = epoch;
    this.refresh();
  }

  /**
   * The best replica for a gate: a live Watch, every plugin that some replica would ask, every required one of them ready,
   * none that fell silent, fewest calls under way. Undefined when none serves the port.
   */
  forGate(port: Port, subject: MatchSubject, except: ReadonlySet<Replica>): Replica | undefined {
    // While a chain is rolled out replicas differ: a plugin that is new on some must not be left out by asking another.
    const wanted = this.standing.gates[port]?.subscribers.filter((one) => holds(one.matches, subject)) ?? [];
    return this.best(except, (replica, view) => {
      if (view.missing.some((one) => holds(one.matches, subject))) return undefined;
      const subscribers = view.ports.get(port);
      if (subscribers === undefined) return undefined;
      const waiting = subscribers.some((one) => one.required && !one.ready && holds(one.matches, subject));
      const lacks = wanted.some(({ plugin }) => !subscribers.some((one) => one.plugin === plugin));
      return (replica.watching ? 0 : 2) + (waiting ? 1 : 0) + (lacks ? 1.5 : 0);
    });
  }

  /** Whether any replica can be reached now, as far as is known. */
  anyWatched(): boolean {
    return this.all.some((replica) => replica.watching);
  }

  /** Where replicas that serve now would not ask the same, for people: a roll that goes on, or one that got stuck. */
  differences(): readonly ChainDifference[] {
    return chainDifferences(
      this.serving().flatMap(({ address, view }) => (view === undefined ? [] : [{ replica: address.target, view }])),
    );
  }

  /** A replica on which a plugin watches the port. */
  forShadow(port: Port): Replica | undefined {
    return this.best(NO_REPLICAS, (replica, view) => (view.shadows.has(port) && replica.watching ? 0 : undefined));
  }

  /** The best replica that has the tool, one whose plugin is up before others. */
  forTool(name: string, except: ReadonlySet<Replica>): Replica | undefined {
    return this.best(except, (replica, view) => {
      const tool = view.tools.get(name);
      return tool === undefined ? undefined : (replica.watching ? 0 : 2) + (tool.live ? 0 : 1);
    });
  }

  /** The best replica with a subscriber of the ledger event. */
  forEvent(event: string): Replica | undefined {
    return this.best(NO_REPLICAS, (replica, view) => (view.events.has(event) && replica.watching ? 0 : undefined));
  }

  async close(): Promise<void> {
    this.stop.abort();
    for (const replica of this.replicas.values()) replica.close();
    this.replicas.clear();
    this.listeners.clear();
    await this.options.memory.settled();
  }

  private best(
    except: ReadonlySet<Replica>,
    rank: (replica: Replica, view: ChainView) => number | undefined,
  ): Replica | undefined {
    let best: Replica | undefined;
    let bestRank = Number.POSITIVE_INFINITY;
    for (const replica of this.replicas.values()) {
      const { view } = replica;
      if (view === undefined || except.has(replica) || !replica.serves(this.options.snapshotServesMs)) continue;
      const base = rank(replica, view);
      if (base === undefined) continue;
      // A host below the newest epoch refuses; it is only tried when no other is left.
      const its = base + (view.epoch < this.epoch ? 4 : 0) + (replica.silent ? 0.5 : 0);
      if (its < bestRank || (its === bestRank && best !== undefined && replica.inFlight < best.inFlight)) {
        best = replica;
        bestRank = its;
      }
    }
    return best;
  }

  private async keepLoading(): Promise<void> {
    while (!this.stop.signal.aborted && !(await this.options.memory.load())) {
      await this.options.clock.sleep(RELOAD_EVERY_MS, this.stop.signal);
    }
    this.refresh();
  }

  private async keepResolving(): Promise<void> {
    while (!this.stop.signal.aborted) {
      await this.resolveOnce();
      await this.options.clock.sleep(this.options.resolveEveryMs, this.stop.signal);
    }
  }

  private async resolveOnce(): Promise<void> {
    const resolved = await Promise.allSettled(this.addresses.map((one) => replicasOf(one, this.options.resolve)));
    if (this.stop.signal.aborted) return;
    const found = new Map<string, ReplicaAddress>();
    let complete = true;
    for (const result of resolved) {
      if (result.status === 'rejected') {
        complete = false;
        this.options.logger?.warn({ err: result.reason }, 'a plugin-host name could not be resolved');
      } else for (const address of result.value) found.set(address.target, address);
    }
    for (const address of found.values()) if (!this.replicas.has(address.target)) this.add(address);
    // A name that does not resolve now says nothing about the replicas it had.
    if (complete && found.size > 0) {
      for (const [target, replica] of this.replicas) if (!found.has(target)) this.remove(target, replica);
    }
  }

  private add(address: ReplicaAddress): void {
    const replica = new Replica(address, { ...this.options.replica, onChange: () => this.refresh() });
    this.replicas.set(address.target, replica);
    void replica.watch();
  }

  private remove(target: string, replica: Replica): void {
    this.replicas.delete(target);
    this.refresh();
    // Calls under way end by their own deadlines; closing the channel would break them.
    if (replica.inFlight === 0) replica.close();
    else {
      void this.options.clock.sleep(MAX_CALL_MS, this.stop.signal).then(() => replica.close());
    }
  }

  private refresh(): void {
    if (this.stop.signal.aborted) return;
    this.standing = this.derive();
    const { metrics } = this.options;
    metrics?.pluginHosts?.({ reachable: this.all.filter((one) => one.watching).length, known: this.replicas.size });
    for (const listener of this.listeners) listener(this.standing);
  }

  /** Those whose snapshots count, in one order for every process: all derive the same gate version while replicas differ. */
  private serving(): Replica[] {
    return this.all.filter((replica) => replica.serves(this.options.snapshotServesMs)).sort(byTarget);
  }

  private derive(): Standing {
    const { snapshotServesMs, memory } = this.options;
    const serving = this.serving();
    const lost = serving.filter((replica) => !replica.watching);
    if (lost.length > 0) this.refreshIn(snapshotServesMs);
    const views = serving.flatMap((replica) => (replica.view === undefined ? [] : [replica.view]));
    for (const view of views) this.epoch = Math.max(this.epoch, view.epoch);
    const newest = views.filter((view) => view.epoch >= this.epoch);
    const current = newest.length > 0 ? newest : views;
    // A host that is still starting a required plugin is asked nothing: a port that only it has yet would have nobody.
    const whole = current.filter((view) => view.missing.length === 0);
    const counting = whole.length > 0 ? whole : current;
    if (counting.length === 0) return this.unserved();
    this.everServed = true;
    const standing = servingStanding(counting, memory);
    // A chain that lacks a required plugin would be remembered as laxer than it is.
    if (counting.every((view) => view.missing.length === 0)) {
      // Under the epoch of the snapshots: one that was only heard of must not be filled with the chain before it.
      memory.remember(Math.max(...counting.map((view) => view.epoch)), mergedPorts(counting));
    }
    return standing;
  }

  private unserved(): Standing {
    const [incomplete] = this.all.filter((replica) => replica.watching && replica.view !== undefined);
    if (incomplete?.view !== undefined) {
      return failingStanding(
        'not ready',
        `The plugin-host is not ready: ${incomplete.view.reason || 'no reason given'}`,
      );
    }
    return this.everServed
      ? failingStanding('unreachable', 'No plugin-host has been reachable for longer than its last snapshot serves.')
      : failingStanding('not ready', 'No plugin-host has reported its plugins yet.');
  }

  private refreshIn(ms: number): void {
    if (this.expiring) return;
    this.expiring = true;
    void this.options.clock.sleep(ms + 1, this.stop.signal).then(() => {
      this.expiring = false;
      this.refresh();
    });
  }
}

function byTarget(a: Replica, b: Replica): number {
  return a.address.target < b.address.target ? -1 : 1;
}

const NO_REPLICAS: ReadonlySet<Replica> = new Set();
const MAX_CALL_MS = 30_000;
const RELOAD_EVERY_MS = 1_000;
