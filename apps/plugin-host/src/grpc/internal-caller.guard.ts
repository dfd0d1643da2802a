import type { Metadata } from '@grpc/grpc-js';
import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { RpcException } from '@nestjs/microservices';
import { INTERNAL_CALLER_REFUSAL, InternalCallers } from './internal-callers.js';

/** Injection token: the bearer token callers must show; undefined where mutual TLS has done the checking. */
export const INTERNAL_TOKEN = Symbol('INTERNAL_TOKEN');

/** Lets only the product's own services in. */
@Injectable()
export class InternalCallerGuard implements CanActivate {
  private readonly callers: InternalCallers;

  constructor(@Inject(INTERNAL_TOKEN) token: string | undefined) {
    this.callers = new InternalCallers(token);
  }

  canActivate(context: ExecutionContext): boolean {
    if (this.callers.admits(context.switchToRpc().getContext<Metadata>())) return true;
    throw new RpcException(INTERNAL_CALLER_REFUSAL);
  }
}
