import { randomUUID } from 'node:crypto';
import type { GateSite, JsonObject, LedgerEventType, Principal } from '@codedock/domain';
import type { Empty, gate } from '@codedock/proto';

import { encodeScratchpad } from '../ports/scratchpad.js';
import type { GateAsker } from './gate-asker.js';
import type { BridgeMetrics } from './options.js';
import type { Replica } from './replica.js';
import type { ReplicaSet } from './replica-set.js';
import { callOnce } from './unary.js';

/** A ledger event for the plugins that subscribe to it. */
export interface EventNotice {
  readonly type: LedgerEventType;
  /** Id and number of the stored event; absent where it is told before they are given. */
  readonly eventId?: string;
  readonly seq?: number;
  /** The event's payload. */
  readonly payload: object;
  readonly site: GateSite;
  readonly principal: Principal;
  /** Read-only for the plugins; empty when absent. */
  readonly scratchpad?: JsonObject;
}

const MOST_WAITING = 1_000;
const NOTIFY_MS = 2_000;
const CALL_BACK_MS = 30_000;
const NO_BYTES = Buffer.alloc(0);
const NO_SCRATCHPAD: JsonObject = {};

interface Lane {
  readonly waiting: EventNotice[];
  replica: Replica | undefined;
}

/**
 * Sends ledger events to one replica, in order per run (else per session), at most once. Never awaited, never throws;
 * over 1,000 waiting events, and where no replica takes one, events are dropped and counted.
 */
export class NotificationQueue {
  private readonly lanes = new Map<string, Lane>();
  private waiting = 0;
  private closed = false;

  constructor(
    private readonly replicas: ReplicaSet,
    private readonly asker: GateAsker,
    private readonly metrics: BridgeMetrics | undefined,
  ) {}

  /** Does nothing when no plugin subscribes to the event, and for `assistant.delta`. */
  send(notice: EventNotice): void {
    if (!this.replicas.standing.events.has(notice.type) || notice.type === 'assistant.delta' || this.closed) return;
    if (this.waiting >= MOST_WAITING) {
      this.metrics?.notificationDropped?.(notice.type);
      return;
    }
    const key = notice.site.runId ?? notice.site.sessionId;
    const lane = this.lanes.get(key);
    this.waiting += 1;
    if (lane !== undefined) {
      lane.waiting.push(notice);
      return;
    }
    const fresh: Lane = { waiting: [notice], replica: undefined };
    this.lanes.set(key, fresh);
    void this.drain(key, fresh);
  }

  /** Drops what waits. */
  close(): void {
    this.closed = true;
    for (const lane of this.lanes.values()) lane.waiting.length = 0;
    this.lanes.clear();
  }

  private async drain(key: string, lane: Lane): Promise<void> {
    for (let notice = lane.waiting.shift(); notice !== undefined; notice = lane.waiting.shift()) {
      this.waiting -= 1;
      const sent = await this.sendOne(lane, notice).catch(() => false);
      if (!sent) this.metrics?.notificationDropped?.(notice.type);
    }
    if (this.lanes.get(key) === lane) this.lanes.delete(key);
  }

  private async sendOne(lane: Lane, notice: EventNotice): Promise<boolean> {
    // A lane stays with its replica while that serves: order holds only within one.
    if (lane.replica?.watching !== true || lane.replica.view?.events.has(notice.type) !== true) {
      lane.replica = this.replicas.forEvent(notice.type);
    }
    const { replica } = lane;
    if (replica === undefined) return false;
    const { client, metadata, address } = replica;
    const result = await callOnce<gate.NotifyRequest, Empty>(
      client.notify.bind(client),
      { envelope: this.envelopeOf(notice) },
      metadata,
      NOTIFY_MS,
      undefined,
      address.target,
    );
    return result.kind === 'answered';
  }

  private envelopeOf(notice: EventNotice): gate.NotifyRequest['envelope'] {
    const { site } = notice;
    return {
      type: notice.type,
      chainId: randomUUID(),
      seen: [],
      sessionId: site.sessionId,
      runId: site.runId ?? '',
      turnId: site.turnId ?? '',
      payload: Buffer.from(JSON.stringify(notice.payload)),
      context: encodeScratchpad(notice.scratchpad ?? NO_SCRATCHPAD),
      reason: '',
      budgetMs: 0,
      attempt: site.attempt ?? 0,
      principal: this.asker.principalBytes(notice.principal),
      capability: this.asker.capabilityBytes(notice, notice.type, CALL_BACK_MS),
      skipResult: NO_BYTES,
      eventId: notice.eventId ?? '',
      eventSeq: notice.seq ?? 0,
    };
  }
}
