import { type Logger, metrics } from '@codedock/platform';
import type { Match } from '@codedock/plugin-bridge';
import { host, type plugin } from '@codedock/proto';
import { matchSubjectOf } from '../dispatch/match-subject.js';
import { isServiceError } from '../grpc/status.js';
import type { HostApi } from '../host-calls/host-api-client.js';

/** Sessions whose events one plugin may handle at the same time. */
const lanes = 4;
const pollMs = 500;
const longestRetryMs = 5_000;
/** How long a batch is this host's at least, milliseconds; so long does another wait for what a dead host had. */
const leastHoldMs = 10_000;
/** The gateway's clock starts the hold later than this one; what goes on here ends a little earlier all the same. */
const holdMarginMs = 500;
const settleTries = 3;
const settlePauseMs = 200;
const longestError = 1_024;

/** A plugin that is to get every event at least once. */
export interface DeliveryTarget {
  readonly name: string;
  /** Ledger events it subscribes to. */
  readonly events: readonly string[];
  /** Absent = it gets the event whoever it is about. */
  readonly matches: Match | undefined;
  /** Milliseconds for one event. */
  readonly timeoutMs: number;
  /** Resolves when the plugin has handled it, with why it has not; empty when it has. Never rejects. */
  deliver(envelope: plugin.Envelope, timeoutMs: number): Promise<string>;
}

/** What delivering needs. */
export interface DeliverySpec {
  readonly api: Pick<HostApi, 'takeEvents' | 'settleEvents'>;
  readonly instanceId: string;
  readonly log: Logger;
  /** Plugins that take events now. */
  targets(): readonly DeliveryTarget[];
}

/**
 * Delivers ledger events at least once: takes what is due of one session from the gateway, gives it to the plugin event
 * by event, and says how far that came. What is taken and not settled is due again, at whatever host, when its hold has
 * run out. Plugins are served apart, so none waits for another, and of one plugin a session that fails holds up no other.
 */
export class DurableDelivery {
  private readonly feeding = new Map<string, Promise<void>>();
  private readonly closing = new AbortController();

  constructor(private readonly spec: DeliverySpec) {}

  /** Begins to serve targets that are new. One that is gone is served until it is asked for next. */
  refresh(): void {
    if (this.closing.signal.aborted) return;
    for (const { name } of this.spec.targets()) {
      if (this.feeding.has(name)) continue;
      const feeding = this.feed(name).finally(() => {
        this.feeding.delete(name);
        // It may have come back while its last lanes ended.
        this.refresh();
      });
      this.feeding.set(name, feeding);
    }
  }

  /** Takes nothing more; resolves when the events under way are handled and what is left is given back. */
  async close(): Promise<void> {
    this.closing.abort();
    await Promise.all(this.feeding.values());
  }

  private async feed(name: string): Promise<void> {
    const busy = new Set<Promise<void>>();
    let failures = 0;
    while (!this.closing.signal.aborted) {
      const target = this.spec.targets().find((one) => one.name === name);
      if (target === undefined) break;
      if (busy.size >= lanes) {
        await Promise.race(busy);
        continue;
      }
      try {
        const taken = await this.take(target);
        failures = 0;
        if (taken === undefined) await this.pause(pollMs);
        else {
          const lane = taken().finally(() => busy.delete(lane));
          busy.add(lane);
        }
      } catch (error) {
        if (failures++ === 0) {
          const reason = isServiceError(error) ? error.details : (error as Error).message;
          this.spec.log.warn(
            { plugin: name, reason },
            'events for a plugin cannot be read from the gateway; trying again',
          );
        }
        await this.pause(Math.min(pollMs * 2 ** failures, longestRetryMs));
      }
    }
    await Promise.all(busy);
  }

  /** The events of one session, to be delivered; undefined when nothing is due. */
  private async take(target: DeliveryTarget): Promise<(() => Promise<void>) | undefined> {
    const holdMs = Math.max(leastHoldMs, 3 * target.timeoutMs);
    const endsAt = performance.now() + holdMs - holdMarginMs;
    const batch = await this.spec.api.takeEvents({
      caller: callerOf(target),
      instanceId: this.spec.instanceId,
      events: [...target.events],
      holdMs,
    });
    return batch.lease === '' ? undefined : () => this.deliver(target, batch, endsAt);
  }

  private async deliver(target: DeliveryTarget, batch: host.EventBatch, endsAt: number): Promise<void> {
    let deliveredSeq = 0;
    let error = '';
    let left = batch.events.length;
    for (const envelope of batch.events) {
      // A call that outlived the hold might meet the same event at another host.
      if (this.closing.signal.aborted || performance.now() + target.timeoutMs > endsAt) break;
      if (target.matches?.(matchSubjectOf(envelope.principal, '')) !== false) {
        error = await target.deliver({ ...envelope, budgetMs: target.timeoutMs }, target.timeoutMs);
        metrics.pluginDeliveries.add(1, { plugin: target.name, outcome: error === '' ? 'delivered' : 'failed' });
        if (error !== '') break;
      }
      deliveredSeq = envelope.eventSeq;
      left--;
    }
    if (left === 0) deliveredSeq = batch.throughSeq;
    await this.settle(target, {
      sessionId: batch.sessionId,
      lease: batch.lease,
      deliveredSeq,
      error: error.slice(0, longestError),
    });
    if (error !== '')
      this.spec.log.warn(
        { plugin: target.name, sessionId: batch.sessionId, attempt: batch.attempt, reason: error },
        'an event was not delivered; it is tried again',
      );
  }

  private async settle(
    target: DeliveryTarget,
    settled: Pick<host.SettleEventsRequest, 'sessionId' | 'lease' | 'deliveredSeq' | 'error'>,
  ): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        const { held } = await this.spec.api.settleEvents({ caller: callerOf(target), ...settled });
        if (!held)
          this.spec.log.warn(
            { plugin: target.name, sessionId: settled.sessionId },
            'events were settled when this host did not hold them any more; they may be delivered again',
          );
        return;
      } catch (error) {
        if (tries < settleTries) await new Promise((resolve) => setTimeout(resolve, settlePauseMs));
        else {
          this.spec.log.warn(
            { err: error, plugin: target.name, sessionId: settled.sessionId },
            'what was delivered is not stored; it will be delivered again',
          );
          return;
        }
      }
    }
  }

  private pause(milliseconds: number): Promise<void> {
    const { signal } = this.closing;
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      signal.addEventListener('abort', end);
      if (signal.aborted) end();
    });
  }
}

function callerOf({ name }: DeliveryTarget): host.Caller {
  return host.Caller.fromPartial({ plugin: name });
}
