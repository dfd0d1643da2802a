import { AppError } from '@codedock/domain';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Authenticator } from './authenticator.js';

/** Authorises every request of a declared route by its key and scopes, before a byte of the body is read. */
export function authorizeRequests(server: FastifyInstance, authenticator: Authenticator): void {
  server.decorateRequest('caller', undefined);
  server.decorateRequest('callerStillValid', undefined);
  server.addHook('onRequest', async (request: FastifyRequest) => {
    const scopes = request.routeOptions.config.endpoint?.scopes;
    if (scopes === undefined || scopes.length === 0) return;
    const header = request.headers.authorization;
    const caller = await authenticator.authenticate(header);
    if (!scopes.some((scope) => caller.scopes.includes(scope))) {
      throw new AppError('forbidden', `This route needs a key with the scope ${scopes.join(' or ')}.`);
    }
    request.caller = caller;
    request.callerStillValid = () =>
      authenticator.authenticate(header).then(
        () => true,
        (error: unknown) => !(error instanceof AppError && error.code === 'unauthenticated'),
      );
  });
}
