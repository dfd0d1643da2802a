import { timingSafeEqual } from 'node:crypto';
import { type Metadata, status } from '@grpc/grpc-js';
import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';

/** Injection token: the bearer token callers must show; undefined where mutual TLS has done the checking. */
export const INTERNAL_TOKEN = Symbol('INTERNAL_TOKEN');

/** Lets only the product's own services in. */
@Injectable()
export class InternalCallerGuard implements CanActivate {
  private readonly expected: Buffer | undefined;

  constructor(@Inject(INTERNAL_TOKEN) token: string | undefined) {
    this.expected = token === undefined ? undefined : Buffer.from(`Bearer ${token}`);
  }

  canActivate(context: ExecutionContext): boolean {
    if (this.expected === undefined) return true;
    const [shown] = context.switchToRpc().getContext<Metadata>().get('authorization');
    if (typeof shown === 'string' && isEqual(Buffer.from(shown), this.expected)) return true;
    throw new RpcException({
      code: status.UNAUTHENTICATED,
      message: 'the internal token is missing or wrong; give all services the same CODEDOCK_INTERNAL_TOKEN',
    });
  }
}

/** Takes the same time wherever the texts differ; only the length of the token can be learnt. */
function isEqual(shown: Buffer, expected: Buffer): boolean {
  return shown.length === expected.length && timingSafeEqual(shown, expected);
}
