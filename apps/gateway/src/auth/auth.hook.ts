import { AppError } from '@codedock/domain';
import type { Store } from '@codedock/store';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Authenticator } from './authenticator.js';
import type { Caller } from './caller.js';
import type { Operators } from './operators.js';
import { streamCaller, streamTokenOf } from './stream-token.js';

/** Who may do what. */
export interface Authority {
  readonly authenticator: Authenticator;
  readonly streamTokens: Store['streamTokens'];
  readonly operators: Operators;
}

/** Authorises every request of a declared route by its key and scopes, before a byte of the body is read. */
export function authorizeRequests(server: FastifyInstance, authority: Authority): void {
  server.decorateRequest('caller', undefined);
  server.decorateRequest('callerStillValid', undefined);
  server.addHook('onRequest', async (request: FastifyRequest) => {
    const { scopes = [], installation = false } = request.routeOptions.config.endpoint ?? {};
    if (scopes.length === 0) return;
    const { caller, stillValid } = await identified(authority, request);
    if (!scopes.some((scope) => caller.scopes.includes(scope))) {
      throw new AppError('forbidden', `This route needs a key with the scope ${scopes.join(' or ')}.`);
    }
    if (installation) authority.operators.require(caller);
    request.caller = caller;
    request.callerStillValid = stillValid;
  });
}

async function identified(
  { authenticator, streamTokens }: Authority,
  request: FastifyRequest,
): Promise<{ caller: Caller; stillValid: () => Promise<boolean> }> {
  const token = streamTokenOf(request);
  if (token !== undefined) {
    const caller = await streamCaller(streamTokens, token, request);
    // The token has done its work: an open stream goes on as long as its key is good.
    return { caller, stillValid: () => authenticator.keyIsLive(caller).catch(() => true) };
  }
  const header = request.headers.authorization;
  const caller = await authenticator.authenticate(header);
  const stillValid = () =>
    authenticator.authenticate(header).then(
      () => true,
      (error: unknown) => !(error instanceof AppError && error.code === 'unauthenticated'),
    );
  return { caller, stillValid };
}
