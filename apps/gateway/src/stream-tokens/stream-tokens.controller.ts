import { createHash, randomBytes } from 'node:crypto';
import { Body, Controller, Inject } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { STREAM_TOKEN_PREFIX } from '../auth/stream-token.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { STORE, type Store } from '../tokens.js';
import { type CreateStreamToken, createStreamToken, streamToken } from './stream-token.schema.js';

/** Tokens for browsers, which cannot send a header with an event stream. */
@Controller('v1/stream-tokens')
export class StreamTokensController {
  constructor(@Inject(STORE) private readonly store: Store) {}

  @Endpoint('POST', '', {
    summary: 'Create a short-lived token with which a browser follows one session or run',
    tag: 'Events',
    scopes: ['runs'],
    body: createStreamToken,
    answers: { 201: { description: 'The token.', schema: streamToken } },
    problems: ['not_found'],
  })
  async create(@By() { tenantId, keyId }: Caller, @Body() { sessionId, runId, ttlSeconds }: CreateStreamToken) {
    const token = `${STREAM_TOKEN_PREFIX}${randomBytes(32).toString('base64url')}`;
    const session = sessionId ?? (await this.store.runs.get(tenantId, runId ?? '')).sessionId;
    const expiresAt = await this.store.streamTokens.create({
      tenantId,
      keyId,
      hash: createHash('sha256').update(token).digest('hex'),
      sessionId: session,
      ttlMs: ttlSeconds * 1_000,
      ...defined({ runId }),
    });
    return { token, expiresAt };
  }
}
