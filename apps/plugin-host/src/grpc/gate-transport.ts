import { type GrpcOptions, ServerGrpc } from '@nestjs/microservices';
import type { DispatchHandler } from './dispatch-handler.js';

/**
 * Nest's gRPC server, with `Dispatch` and `DispatchStream` served by handlers of their own: what Nest puts around a
 * method (observables, contexts, interceptors) would be a good part of what a gate costs. All other methods are
 * controllers' as usual.
 */
export class GateTransport extends ServerGrpc {
  constructor(
    options: GrpcOptions['options'],
    private readonly handler: DispatchHandler,
  ) {
    super(options);
  }

  override async createService(grpcService: unknown, name: string): Promise<object> {
    const service = await super.createService(grpcService, name);
    if (name !== 'GateService') return service;
    return { ...service, Dispatch: this.handler.dispatch, DispatchStream: this.handler.dispatchStream };
  }
}
