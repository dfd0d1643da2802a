import { isAppError } from '@codedock/domain';
import type { Empty, gate } from '@codedock/proto';
import type { Metadata, ServerUnaryCall } from '@grpc/grpc-js';
import { Controller, UseGuards } from '@nestjs/common';
import { GrpcMethod, RpcException } from '@nestjs/microservices';
import type { Observable } from 'rxjs';
import { PluginHost } from '../plugin-host.js';
import { cancellationOf } from './cancellation.js';
import { InternalCallerGuard } from './internal-caller.guard.js';
import { isServiceError, toServiceError } from './status.js';

const service = 'GateService';

/**
 * The plugin-host's service to gateway and runner: translates between gRPC and the host, and nothing else. `Dispatch` is
 * served by its own handler.
 */
@Controller()
@UseGuards(InternalCallerGuard)
export class GateController {
  constructor(private readonly host: PluginHost) {}

  @GrpcMethod(service, 'Watch')
  watch(): Observable<gate.Snapshot> {
    return this.host.feed.watch();
  }

  @GrpcMethod(service, 'Notify')
  notify(request: gate.NotifyRequest): Promise<Empty> {
    return answered(async () => {
      this.host.notify(request);
      return {};
    });
  }

  @GrpcMethod(service, 'ExecuteTool')
  executeTool(
    request: gate.ToolRequest,
    _: Metadata,
    call: ServerUnaryCall<gate.ToolRequest, gate.ToolAnswer>,
  ): Promise<gate.ToolAnswer> {
    const { signal, answered: done } = cancellationOf(call);
    return answered(() => this.host.executeTool(request, signal).finally(done));
  }

  @GrpcMethod(service, 'ListPlugins')
  listPlugins(): gate.PluginList {
    return this.host.listPlugins();
  }

  @GrpcMethod(service, 'StopPlugin')
  stopPlugin({ name }: gate.PluginName): Promise<gate.PluginStatus> {
    return answered(() => this.host.stopPlugin(name));
  }

  @GrpcMethod(service, 'StartPlugin')
  startPlugin({ name }: gate.PluginName): Promise<gate.PluginStatus> {
    return answered(() => this.host.startPlugin(name));
  }

  @GrpcMethod(service, 'ReloadPlugin')
  reloadPlugin({ name }: gate.PluginName): Promise<gate.PluginStatus> {
    return answered(() => this.host.reloadPlugin(name));
  }

  @GrpcMethod(service, 'Record')
  record(request: gate.RecordRequest): Promise<Observable<gate.RecordedQuestion>> {
    return answered(async () => this.host.recordQuestions(request));
  }

  @GrpcMethod(service, 'Refresh')
  refresh(): Promise<gate.RefreshResult> {
    return answered(() => this.host.refresh());
  }
}

/** Nest passes on code and message of an RpcException only; anything unexpected is left to the filter, which logs it. */
async function answered<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!isAppError(error) && !isServiceError(error)) throw error;
    const { code, details } = toServiceError(error);
    throw new RpcException({ code, message: details });
  }
}
