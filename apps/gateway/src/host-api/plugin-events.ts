import { randomUUID } from 'node:crypto';
import { AppError, isPluginName, LEDGER_EVENT_TYPES, wellFormedText } from '@codedock/domain';
import type { CapabilitySigner } from '@codedock/plugin-bridge';
import { host, plugin } from '@codedock/proto';
import type { DeliverableEvent, Store } from '@codedock/store';

/** Of one batch: events, and bytes of their payloads after the first. */
const MAX_EVENTS = 100;
const MAX_BYTES = 1024 * 1024;
/** Milliseconds for which a host may hold a batch. */
const SHORTEST_HOLD_MS = 1_000;
const LONGEST_HOLD_MS = 120_000;
const MAX_ERROR = 1_024;
const DELIVERABLE: ReadonlySet<string> = new Set(LEDGER_EVENT_TYPES.filter((type) => type !== 'assistant.delta'));

/** Events for plugins with durable delivery, as plugin-hosts fetch them. */
export class PluginEvents {
  /** Without a signer plugins cannot call back while they handle an event. */
  constructor(
    private readonly deliveries: Store['pluginDeliveries'],
    private readonly sign: CapabilitySigner | undefined,
    private readonly now: () => number,
  ) {}

  /** @throws AppError `invalid_request` for a name, an event or a time that cannot be. */
  async take({ caller, events, holdMs }: host.TakeEventsRequest): Promise<host.EventBatch> {
    const name = pluginOf(caller);
    if (events.length === 0) throw new AppError('invalid_request', 'TakeEvents: the plugin subscribes to no event.');
    const unknown = events.find((type) => !DELIVERABLE.has(type));
    if (unknown !== undefined)
      throw new AppError('invalid_request', `TakeEvents: "${unknown}" is no event that plugins get.`);
    if (holdMs < SHORTEST_HOLD_MS || holdMs > LONGEST_HOLD_MS)
      throw new AppError(
        'invalid_request',
        `TakeEvents: a batch is held between ${SHORTEST_HOLD_MS} and ${LONGEST_HOLD_MS} ms, not ${holdMs}.`,
      );
    const batch = await this.deliveries.take({
      plugin: name,
      events: [...new Set(events)],
      holdMs,
      limit: MAX_EVENTS,
      maxBytes: MAX_BYTES,
    });
    if (batch === undefined) return host.EventBatch.create();
    const expiresAt = this.now() + holdMs;
    return {
      lease: batch.lease,
      sessionId: batch.sessionId,
      throughSeq: batch.throughSeq,
      attempt: batch.attempt,
      events: batch.events.map((event) => this.envelopeOf(event, batch.tenantId, expiresAt)),
    };
  }

  /** @throws AppError `invalid_request` for a name that cannot be. */
  async settle(settled: host.SettleEventsRequest): Promise<host.EventsSettled> {
    const { caller, sessionId, lease, deliveredSeq, error } = settled;
    const held = await this.deliveries.settle({
      plugin: pluginOf(caller),
      sessionId,
      lease,
      deliveredSeq,
      ...(error === '' ? {} : { error: wellFormedText(error.slice(0, MAX_ERROR)) }),
    });
    return { held };
  }

  private envelopeOf(event: DeliverableEvent, tenant: string, expiresAt: number): plugin.Envelope {
    const { eventId, seq, type, sessionId, runId = '', turnId = '', attempt = 0, principal, payload } = event;
    return plugin.Envelope.fromPartial({
      type,
      chainId: randomUUID(),
      sessionId,
      runId,
      turnId,
      attempt,
      eventId,
      eventSeq: seq,
      payload: Buffer.from(JSON.stringify(payload)),
      context: Buffer.from('{}'),
      principal: Buffer.from(JSON.stringify(principal)),
      ...(this.sign === undefined
        ? {}
        : {
            capability: this.sign({
              tenant,
              session: sessionId,
              ...(runId === '' ? {} : { run: runId }),
              subject: type,
              expiresAt,
            }),
          }),
    });
  }
}

function pluginOf(caller: host.Caller | undefined): string {
  const name = caller?.plugin ?? '';
  if (!isPluginName(name)) throw new AppError('invalid_request', 'The caller names no plugin.');
  return name;
}
