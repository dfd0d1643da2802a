import { inTrace } from '@codedock/platform';
import type { plugin } from '@codedock/proto';
import type { handleUnaryCall } from '@grpc/grpc-js';
import { toServiceError } from '../grpc/status.js';
import type { HostCalls } from './host-calls.js';

/**
 * The call-backs as the gRPC service a plugin reaches over its broker. Calls it does not know, the reserved ones among
 * them, are answered UNIMPLEMENTED by gRPC itself.
 */
export function hostService(calls: HostCalls): plugin.HostServer {
  const served =
    <Request, Reply>(act: (request: Request, signal: AbortSignal) => Promise<Reply>): handleUnaryCall<Request, Reply> =>
    (call, callback) => {
      const given = new AbortController();
      call.on('cancelled', () => given.abort());
      const work = () => act(call.request, given.signal);
      // Without a trace of the plugin's own, that of the question it is asked belongs to the call-back.
      const acting = call.metadata.get('traceparent').length === 0 ? inTrace({}, work) : work();
      acting.then(
        (reply) => callback(null, reply),
        (error: unknown) => callback(toServiceError(error)),
      );
    };
  return {
    emit: served((request) => calls.emit(request)),
    registerMethod: served((request) => calls.registerMethod(request)),
    memoryGet: served((request) => calls.memoryGet(request)),
    memoryUpsert: served((request) => calls.memoryUpsert(request)),
    complete: served((request, signal) => calls.complete(request, signal)),
    appendNotice: served((request) => calls.appendNotice(request)),
    getActiveTools: served((request) => calls.getActiveTools(request)),
    setActiveTools: served((request) => calls.setActiveTools(request)),
    getSystemPrompt: served((request) => calls.getSystemPrompt(request)),
    getSetting: served((request) => calls.getSetting(request)),
    setSetting: served((request) => calls.setSetting(request)),
    getSecret: served((request) => calls.getSecret(request)),
    setSecret: served((request) => calls.setSecret(request)),
    listModels: served((request) => calls.listModels(request)),
  };
}
