import { Body, Controller, Inject, Param, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { grantList } from '../approvals/approval.schema.js';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { ids } from '../ids.js';
import { RUN_PORTS, type RunPorts, STORE, type Store } from '../tokens.js';
import { deleteSession } from './delete-session.js';
import {
  type CreateSession,
  createSession,
  type DeleteSessionQuery,
  deleteSessionQuery,
  deletingSession,
  type ListMessages,
  type ListSessions,
  listMessages,
  listSessions,
  messagePage,
  session,
  sessionPage,
} from './session.schema.js';

const TAG = 'Sessions';

/** Sessions: conversations that hold runs, messages and one ledger each. */
@Controller('v1/sessions')
export class SessionsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    private readonly idempotent: IdempotentRequests,
  ) {}

  @Endpoint('POST', '', {
    summary: 'Create a session',
    tag: TAG,
    scopes: ['runs'],
    body: createSession,
    answers: { 201: { description: 'The session.', schema: session } },
    idempotent: true,
  })
  async create(
    @By() caller: Caller,
    @Body() body: CreateSession,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.idempotent.answer(request, reply, async (claim) => {
      const sessionId = ids.next();
      const completion = claim === undefined ? undefined : { ...claim, status: 201, body: {} };
      const created = await this.store.sessions.create(
        {
          tenantId: caller.tenantId,
          id: sessionId,
          createdBy: caller.keyId,
          metadata: body.metadata ?? {},
          ...defined({ user: body.user, title: body.title }),
        },
        completion,
      );
      return { status: 201, body: created };
    });
  }

  @Endpoint('GET', '', {
    summary: 'List sessions, newest first',
    tag: TAG,
    scopes: ['runs'],
    query: listSessions,
    answers: { 200: { description: 'A page of sessions.', schema: sessionPage } },
  })
  async list(@By() caller: Caller, @Query() { limit, cursor }: ListSessions) {
    const found = await this.store.sessions.list({
      tenantId: caller.tenantId,
      limit: limit + 1,
      ...defined({ before: cursor }),
    });
    return toPage(found, limit);
  }

  @Endpoint('GET', ':sessionId', {
    summary: 'Get a session',
    tag: TAG,
    scopes: ['runs'],
    answers: { 200: { description: 'The session.', schema: session } },
  })
  get(@By() caller: Caller, @Param('sessionId') sessionId: string) {
    return this.store.sessions.get(caller.tenantId, sessionId);
  }

  @Endpoint('POST', ':sessionId/archive', {
    summary: 'Archive a session: it takes no further input and its grants are revoked; again is harmless',
    tag: TAG,
    scopes: ['runs'],
    answers: { 200: { description: 'The archived session.', schema: session } },
    problems: ['session_busy'],
  })
  archive(@By() caller: Caller, @Param('sessionId') sessionId: string) {
    return this.store.sessions.archive(caller.tenantId, sessionId);
  }

  @Endpoint('DELETE', ':sessionId', {
    summary: 'Delete a session with everything in it, its memory included; audited without content',
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: deleteSessionQuery,
    answers: {
      202: { description: 'It is gone for everybody; many rows are still being deleted.', schema: deletingSession },
      204: { description: 'It is gone.' },
    },
    problems: ['session_busy'],
  })
  async delete(
    @By() { tenantId, keyId, keyName }: Caller,
    @Param('sessionId') sessionId: string,
    @Query() { cancel }: DeleteSessionQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const gone = await deleteSession(this.ports, {
      tenantId,
      sessionId,
      actor: { id: keyId, name: keyName },
      cancel: cancel === 'true',
    });
    reply.status(gone ? 204 : 202);
    return gone ? undefined : { id: sessionId, status: 'deleting' };
  }

  @Endpoint('GET', ':sessionId/grants', {
    summary: 'List approvals that reach beyond their call, oldest first',
    tag: TAG,
    scopes: ['approvals', 'runs'],
    answers: { 200: { description: 'All grants of the session.', schema: grantList } },
  })
  async grants(@By() { tenantId }: Caller, @Param('sessionId') sessionId: string) {
    await this.store.sessions.get(tenantId, sessionId);
    return { items: await this.store.approvals.grants(tenantId, sessionId) };
  }

  @Endpoint('GET', ':sessionId/messages', {
    summary: 'List messages, oldest first',
    tag: TAG,
    scopes: ['runs'],
    query: listMessages,
    answers: { 200: { description: 'A page of messages.', schema: messagePage } },
  })
  async messages(@By() caller: Caller, @Param('sessionId') sessionId: string, @Query() { limit, after }: ListMessages) {
    await this.store.sessions.get(caller.tenantId, sessionId);
    const found = await this.store.messages.list({ tenantId: caller.tenantId, sessionId, after, limit: limit + 1 });
    const items = found.slice(0, limit);
    return { items, nextAfter: found.length > limit ? (items.at(-1)?.eventSeq ?? null) : null };
  }
}
