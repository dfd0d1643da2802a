import { createHash, randomBytes } from 'node:crypto';
import { AppError } from '@codedock/domain';
import type { Store } from '@codedock/store';
import type { FastifyRequest } from 'fastify';
import type { Caller } from './caller.js';

/** Begins as API keys do, so that it is kept out of logs as they are. */
const PREFIX = 'cdk_stream_';
const TOKEN = new RegExp(`^${PREFIX}[A-Za-z0-9_-]{43}$`);

/** A new token, and the hash that is all that is stored of it. */
export function newStreamToken(): { readonly token: string; readonly hash: string } {
  const token = `${PREFIX}${randomBytes(32).toString('base64url')}`;
  return { token, hash: hashOf(token) };
}

/** The token of a request for an event stream; undefined where there is none, or a header says who asks. */
export function streamTokenOf(request: FastifyRequest): string | undefined {
  if (request.routeOptions.config.endpoint?.stream !== true || request.headers.authorization !== undefined) return;
  const { token } = request.query as { token?: unknown };
  return typeof token === 'string' ? token : undefined;
}

/**
 * The key a stream token acts for.
 * @throws AppError `unauthenticated` when the token is unknown or expired, is for another session or run than the
 * request, or its key is revoked or expired.
 */
export async function streamCaller(
  tokens: Store['streamTokens'],
  token: string,
  request: FastifyRequest,
): Promise<Caller> {
  const { sessionId, runId } = request.params as { sessionId?: string; runId?: string };
  const target = { ...(sessionId === undefined ? {} : { sessionId }), ...(runId === undefined ? {} : { runId }) };
  const owner = TOKEN.test(token) ? await tokens.authenticate(hashOf(token), target) : undefined;
  if (owner !== undefined) return owner;
  throw new AppError(
    'unauthenticated',
    'The stream token is unknown, expired, or for another session or run; get one from POST /v1/stream-tokens.',
  );
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
