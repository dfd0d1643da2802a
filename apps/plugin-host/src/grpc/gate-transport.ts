import type { gate } from '@codedock/proto';
import type { handleUnaryCall } from '@grpc/grpc-js';
import { type GrpcOptions, ServerGrpc } from '@nestjs/microservices';

/**
 * Nest's gRPC server, with `Dispatch` served by a handler of its own: what Nest puts around a method (observables,
 * contexts, interceptors) would be a good part of what a gate costs. All other methods are controllers' as usual.
 */
export class GateTransport extends ServerGrpc {
  constructor(
    options: GrpcOptions['options'],
    private readonly dispatch: handleUnaryCall<gate.GateRequest, gate.GateAnswer>,
  ) {
    super(options);
  }

  override async createService(grpcService: unknown, name: string): Promise<object> {
    const service = await super.createService(grpcService, name);
    return name === 'GateService' ? { ...service, Dispatch: this.dispatch } : service;
  }
}
