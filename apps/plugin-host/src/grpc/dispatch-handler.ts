import { isAppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { type ServedDispatches, serveDispatchStream } from '@codedock/plugin-bridge';
import type { gate } from '@codedock/proto';
import type { ServerDuplexStream, ServerUnaryCall, ServiceError, sendUnaryData } from '@grpc/grpc-js';
import type { PluginHost } from '../plugin-host.js';
import { cancellationOf } from './cancellation.js';
import { INTERNAL_CALLER_REFUSAL, InternalCallers } from './internal-callers.js';
import { failure, isServiceError, toServiceError } from './status.js';

/** `Dispatch` and `DispatchStream`, as plain handlers of the gRPC server: every gate of every run goes through them. */
export class DispatchHandler {
  private readonly callers: InternalCallers;
  private readonly streams = new Set<ServedDispatches>();
  private draining = false;

  constructor(
    private readonly host: PluginHost,
    token: string | undefined,
    private readonly log: Logger,
  ) {
    this.callers = new InternalCallers(token);
  }

  readonly dispatch = (
    call: ServerUnaryCall<gate.GateRequest, gate.GateAnswer>,
    callback: sendUnaryData<gate.GateAnswer>,
  ): void => {
    if (!this.callers.admits(call.metadata)) {
      callback(refused());
      return;
    }
    const cancellation = cancellationOf(call);
    this.host.dispatch(call.request, cancellation.signal).then(
      (answer) => {
        cancellation.answered();
        callback(null, answer);
      },
      (error: unknown) => {
        cancellation.answered();
        callback(this.shown(error));
      },
    );
  };

  readonly dispatchStream = (stream: ServerDuplexStream<gate.DispatchCall, gate.DispatchReply>): void => {
    if (!this.callers.admits(stream.metadata)) {
      stream.emit('error', refused());
      return;
    }
    const served = serveDispatchStream(stream, {
      dispatch: (request, signal) => this.host.dispatch(request, signal),
      refusalOf: (error) => this.shown(error),
    });
    this.streams.add(served);
    void served.over.then(() => this.streams.delete(served));
    if (this.draining) served.end();
  };

  /** Ends every stream once the calls it has taken are answered; a host that drains refuses further ones. */
  endStreams(): void {
    this.draining = true;
    for (const stream of this.streams) stream.end();
  }

  private shown(error: unknown): ServiceError {
    if (!isAppError(error) && !isServiceError(error)) this.log.error({ err: error }, 'Dispatch failed unexpectedly');
    return toServiceError(error);
  }
}

function refused(): ServiceError {
  return failure(INTERNAL_CALLER_REFUSAL.code, INTERNAL_CALLER_REFUSAL.message);
}
