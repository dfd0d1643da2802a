import { AppError, type LedgerEvent, type LedgerEventType, TERMINAL_EVENTS } from '@codedock/domain';
import { type Logger, metrics } from '@codedock/platform';
import type { Store } from '@codedock/store';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { headersOf } from '../http/reply-headers.js';
import { EventTail } from './event-tail.js';
import type { SessionFeeds } from './session-feeds.js';
import { SseConnection, type SseLimits } from './sse-connection.js';
import { deletedFrame, prunedFrame, sseFrame } from './sse-frame.js';

/** Events of one read of the database. */
const PAGE_SIZE = 200;
const ROOM_RETRY_MS = 5_000;

const ENDS: ReadonlySet<LedgerEventType> = new Set(Object.values(TERMINAL_EVENTS));

/** What one client wants to see. */
export interface Stream {
  readonly tenantId: string;
  readonly sessionId: string;
  /** Only this run's events, up to its end. */
  readonly runId?: string;
  readonly after: number;
  /** First seq that belongs to it: 1, or that of the run's first event. */
  readonly firstSeq: number;
  /** Nothing follows what is stored: the stream ends after the replay. */
  readonly complete: boolean;
}

/** All open event streams of this process. */
export class EventStreams {
  private readonly connections = new Set<SseConnection>();
  private closing = false;

  constructor(
    private readonly ledger: Store['ledger'],
    private readonly feeds: SessionFeeds,
    private readonly limits: SseLimits,
    private readonly log: Logger,
    private readonly max: number,
  ) {}

  /** @throws AppError `rate_limited` while as many streams are open as may be. */
  requireRoom(): void {
    if (this.connections.size < this.max) return;
    throw new AppError(
      'rate_limited',
      `This gateway keeps as many event streams open as it may (${this.max}); come back later, or read the event log.`,
      { retryAfterMs: ROOM_RETRY_MS },
    );
  }

  /** True when the client has everything that will ever be: the answer is 204, which keeps a browser from coming back. */
  async isOver({ tenantId, sessionId, runId, after, firstSeq, complete }: Stream): Promise<boolean> {
    if (!complete) return false;
    const next = await this.ledger.since({
      tenantId,
      sessionId,
      after,
      limit: 1,
      ...(runId === undefined ? {} : { runId }),
    });
    if (next.length > 0) return false;
    return (await this.ledger.prunedSeq(tenantId, sessionId)) <= Math.max(after, firstSeq - 1);
  }

  /** Takes the reply over and serves the stream until its end, the client's, or the server's. */
  async serve(stream: Stream, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { tenantId, sessionId, runId, after, firstSeq, complete } = stream;
    reply.hijack();
    const connection = new SseConnection(
      reply.raw,
      this.limits,
      headersOf(reply),
      request.callerStillValid ?? (async () => true),
    );
    this.connections.add(connection);
    metrics.sseClients.add(1, {});
    let told = firstSeq - 1;
    const read = async (from: number, limit: number) => {
      const events = await this.ledger.since({
        tenantId,
        sessionId,
        after: from,
        limit,
        ...(runId === undefined ? {} : { runId }),
      });
      if (events[0]?.seq === from + 1) return events;
      // A hole: events of another run, nothing new, or retention was here – which is never passed over in silence.
      const prunedSeq = await this.ledger.prunedSeq(tenantId, sessionId);
      if (prunedSeq > Math.max(told, from)) {
        told = prunedSeq;
        connection.write(prunedFrame(sessionId, from, prunedSeq));
      }
      return events;
    };
    const tail = new EventTail({
      after,
      pageSize: PAGE_SIZE,
      read,
      includes: (event) => runId === undefined || event.runId === runId,
      isLast: (event) => runId !== undefined && event.runId === runId && ENDS.has(event.type),
      sink: {
        write: (event: LedgerEvent) => connection.write(sseFrame(event)),
        drained: () => connection.drained(),
        finish: (reason) => {
          if (reason === 'end') {
            connection.end();
            return;
          }
          this.log.warn({ sessionId, err: reason.error }, 'an event stream was cut: its events could not be read');
          connection.drop();
        },
      },
    });
    try {
      // Subscribed before the first read: what is committed in between is pushed, and de-duplicated by seq.
      const unfollow = complete
        ? () => undefined
        : await this.feeds.follow(sessionId, {
            told: (push) => tail.push(push),
            gone: () => {
              connection.write(deletedFrame(sessionId));
              connection.end();
            },
          });
      try {
        if (this.closing) connection.end();
        await tail.replay();
        if (complete) connection.end();
        await connection.whenClosed();
      } finally {
        unfollow();
      }
    } finally {
      tail.stop();
      connection.drop();
      this.connections.delete(connection);
      metrics.sseClients.add(-1, {});
    }
  }

  /** Ends every stream in good order; clients come back to another process by their last id. */
  async close(): Promise<void> {
    this.closing = true;
    const open = [...this.connections];
    for (const connection of open) connection.end();
    await Promise.all(open.map((connection) => connection.whenClosed()));
  }
}
