import type { Scope } from '@codedock/domain';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';

/** Whose request this is: an API key and the tenant it belongs to. Holds no secret. */
export interface Caller {
  readonly tenantId: string;
  /** Known where a key was sent; a stream token's caller has no need of it. */
  readonly tenantName?: string;
  readonly keyId: string;
  /** The key's name: what plugins and the audit see. */
  readonly keyName: string;
  readonly scopes: readonly Scope[];
  /** Requests that a gateway answers the tenant a second; absent = the installation's default. */
  readonly requestsPerSecond?: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Present on every request that a route with scopes serves. */
    caller: Caller | undefined;
    /** Whether the caller's key is still good, for what outlasts its request. True too where the store cannot be asked. */
    callerStillValid: (() => Promise<boolean>) | undefined;
  }
}

/** The caller of a route that asks for a key. */
export const By = createParamDecorator((_: unknown, context: ExecutionContext): Caller => {
  const { caller } = context.switchToHttp().getRequest<FastifyRequest>();
  if (caller === undefined) throw new TypeError('this route declares no scopes, so that it has no caller');
  return caller;
});
