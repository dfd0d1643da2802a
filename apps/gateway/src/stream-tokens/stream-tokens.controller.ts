import { Body, Controller, Inject, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { newStreamToken } from '../auth/stream-token.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { STORE, type Store } from '../tokens.js';
import { type CreateStreamToken, createStreamToken, streamToken } from './stream-token.schema.js';

/** Tokens for browsers, which cannot send a header with an event stream. */
@Controller('v1/stream-tokens')
export class StreamTokensController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly idempotent: IdempotentRequests,
  ) {}

  @Endpoint('POST', '', {
    summary: 'Create a short-lived token with which a browser follows one session or run',
    tag: 'Events',
    scopes: ['runs'],
    body: createStreamToken,
    answers: { 201: { description: 'The token.', schema: streamToken } },
    problems: ['not_found'],
    idempotent: true,
  })
  create(
    @By() { tenantId, keyId }: Caller,
    @Body() { sessionId, runId, ttlSeconds }: CreateStreamToken,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.idempotent.answer(request, reply, async (claim) => {
      const { token, hash } = newStreamToken();
      const session = sessionId ?? (await this.store.runs.get(tenantId, runId ?? '')).sessionId;
      const expiresAt = await this.store.streamTokens.create(
        { tenantId, keyId, hash, sessionId: session, ttlMs: ttlSeconds * 1_000, ...defined({ runId }) },
        claim === undefined ? undefined : { ...claim, status: 201, body: this.idempotent.kept(claim, { token }) },
      );
      return { status: 201, body: { token, expiresAt } };
    });
  }
}
