import { isTerminal } from '@codedock/domain';
import { Controller, Inject, Param, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { type AnswerSpec, Endpoint } from '../http/endpoint.js';
import { STORE, type Store } from '../tokens.js';
import { eventLog, type ReadEventLog, readEventLog, type StreamEvents, streamEvents } from './event.schema.js';
import { EventStreams, type Stream } from './event-streams.js';
import { requireReached, startOf } from './position.js';
import { shown } from './sse-frame.js';

const TAG = 'Events';

const STREAM_ANSWERS: Readonly<Record<number, AnswerSpec>> = {
  200: {
    description:
      'Ledger events: `id` is the seq, `event` the type, `data` a LedgerEvent. `events.pruned` stands for events that are not kept any more, `session.deleted` is the last frame when the session is deleted.',
    mediaType: 'text/event-stream',
  },
  204: { description: 'It is over and the client has seen everything.' },
};

/** The ledger as clients see it: live streams, and the log a page at a time. */
@Controller('v1')
export class EventsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly streams: EventStreams,
  ) {}

  @Endpoint('GET', 'sessions/:sessionId/events', {
    summary: "Follow a session's events",
    tag: TAG,
    scopes: ['runs'],
    query: streamEvents,
    answers: STREAM_ANSWERS,
    stream: true,
  })
  async session(
    @By() { tenantId }: Caller,
    @Param('sessionId') sessionId: string,
    @Query() query: StreamEvents,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ) {
    const after = startOf(request.headers['last-event-id'], query.after);
    const session = await this.store.sessions.get(tenantId, sessionId);
    await this.answer(
      { tenantId, sessionId, after, firstSeq: 1, complete: session.status === 'archived' },
      session.lastSeq,
      request,
      reply,
    );
  }

  @Endpoint('GET', 'runs/:runId/events', {
    summary: "Follow a run's events; the stream closes after the run's end",
    tag: TAG,
    scopes: ['runs'],
    query: streamEvents,
    answers: STREAM_ANSWERS,
    stream: true,
  })
  async run(
    @By() { tenantId }: Caller,
    @Param('runId') runId: string,
    @Query() query: StreamEvents,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ) {
    const after = startOf(request.headers['last-event-id'], query.after);
    const { sessionId, status, firstSeq, lastSeq } = await this.store.runs.get(tenantId, runId);
    const complete = isTerminal(status);
    await this.answer({ tenantId, sessionId, runId, after, firstSeq, complete }, lastSeq, request, reply);
  }

  @Endpoint('GET', 'sessions/:sessionId/event-log', {
    summary: "Read a session's events a page at a time",
    tag: TAG,
    scopes: ['runs'],
    query: readEventLog,
    answers: { 200: { description: 'A page of events.', schema: eventLog } },
  })
  async log(
    @By() { tenantId }: Caller,
    @Param('sessionId') sessionId: string,
    @Query() { after, limit }: ReadEventLog,
  ) {
    const { prunedSeq } = await this.store.sessions.get(tenantId, sessionId);
    const found = await this.store.ledger.since({ tenantId, sessionId, after, limit: limit + 1 });
    const items = found.slice(0, limit);
    return {
      items: items.map(shown),
      nextAfter: found.length > limit ? (items.at(-1)?.seq ?? null) : null,
      prunedSeq,
    };
  }

  private async answer(stream: Stream, lastSeq: number, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (await this.streams.isOver(stream)) {
      await reply.status(204).send();
      return;
    }
    requireReached(stream.after, lastSeq, request.headers['last-event-id'] !== undefined);
    this.streams.requireRoom();
    await this.streams.serve(stream, request, reply);
  }
}
