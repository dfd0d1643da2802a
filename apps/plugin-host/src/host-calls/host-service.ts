import { AppError } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import type { host, plugin } from '@codedock/proto';
import { type handleUnaryCall, status } from '@grpc/grpc-js';
import { failure, isServiceError, toServiceError } from '../grpc/status.js';
import type { CallsInFlight } from './calls-in-flight.js';
import type { Emitter } from './emitter.js';
import type { HostApi } from './host-api-client.js';
import type { ToolRegistry } from './tool-registry.js';

/** The plugin process that calls back, and what its call-backs act on. */
export interface HostServiceContext {
  readonly plugin: string;
  readonly calls: CallsInFlight;
  readonly tools: ToolRegistry;
  readonly emitter: Emitter;
  readonly api: HostApi;
  readonly log: Logger;
  /** Called after the plugin's tools have changed. */
  onToolsChanged(): void;
}

interface Addressed {
  readonly sessionId: string;
  readonly runId: string;
}

/**
 * The Host service as one plugin process sees it. Nothing is answered before its effect is certain; what a plugin has
 * no authority for is refused here or by the gateway, and recorded.
 */
export function hostService(context: HostServiceContext): plugin.HostServer {
  const caller = (method: string, { sessionId, runId }: Addressed): host.Caller => {
    const capability = context.calls.capabilityFor(sessionId, runId);
    if (capability === undefined) {
      const whose =
        runId === ''
          ? `session ${sessionId || '(none named)'}`
          : `run ${runId} of session ${sessionId || '(none named)'}`;
      throw new AppError(
        'capability_refused',
        `${method}: no call to this plugin is open for ${whose}; call back while a gate or tool of that session is being answered`,
      );
    }
    return { plugin: context.plugin, capability };
  };
  const answer =
    <Request extends object, Reply>(
      method: string,
      act: (request: Request) => Reply | Promise<Reply>,
    ): handleUnaryCall<Request, Reply> =>
    async (call, callback) => {
      try {
        callback(null, await act(call.request));
      } catch (error) {
        record(context, method, call.request, error);
        callback(toServiceError(error));
      }
    };
  const unimplemented =
    <Request, Reply>(method: string): handleUnaryCall<Request, Reply> =>
    (_, callback) =>
      callback(failure(status.UNIMPLEMENTED, `${method} is not offered by this version of the host`));

  return {
    emit: answer('Emit', (event: plugin.Envelope) => {
      context.emitter.emit(event, context.calls.emitDepth());
      return {};
    }),
    registerMethod: answer('RegisterMethod', (method: plugin.Method) => {
      context.tools.register(method);
      context.onToolsChanged();
      return {};
    }),
    memoryGet: answer('MemoryGet', (key: plugin.MemoryKey) =>
      context.api.memoryGet({ caller: caller('MemoryGet', { sessionId: key.sessionId, runId: '' }), key }),
    ),
    memoryUpsert: answer('MemoryUpsert', (entry: plugin.MemoryEntry) =>
      context.api.memoryUpsert({
        caller: caller('MemoryUpsert', { sessionId: entry.key?.sessionId ?? '', runId: '' }),
        entry,
      }),
    ),
    appendNotice: answer('AppendNotice', (notice: plugin.Notice) =>
      context.api.appendNotice({ caller: caller('AppendNotice', notice), notice }),
    ),
    complete: unimplemented('Complete'),
    getActiveTools: unimplemented('GetActiveTools'),
    setActiveTools: unimplemented('SetActiveTools'),
    getSystemPrompt: unimplemented('GetSystemPrompt'),
    getSetting: unimplemented('GetSetting'),
    setSetting: unimplemented('SetSetting'),
    getSecret: unimplemented('GetSecret'),
    setSecret: unimplemented('SetSecret'),
    listModels: unimplemented('ListModels'),
  };
}

/** What the plugin-host refuses itself is told to the gateway for its audit; the gateway records its own refusals. */
function record(context: HostServiceContext, method: string, request: object, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  context.log.warn({ method, reason: message }, 'a call-back of a plugin was refused or failed');
  if (isServiceError(error)) return;
  const field = (name: string) => (name in request ? String(Reflect.get(request, name)) : '');
  context.api
    .recordPluginEvent({
      caller: { plugin: context.plugin, capability: Buffer.alloc(0) },
      instanceId: '',
      kind: 'host_call_refused',
      message: message.slice(0, 1024),
      sessionId: field('sessionId'),
      runId: field('runId'),
    })
    .catch((failed: Error) => context.log.debug({ err: failed }, 'a refusal could not be recorded at the gateway'));
}
