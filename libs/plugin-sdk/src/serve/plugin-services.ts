import type { plugin } from '@codedock/proto';
import { Metadata, type ServerUnaryCall, type ServiceError, status } from '@grpc/grpc-js';
import { answerEvent } from '../answer-event.js';
import type { CompiledPlugin } from '../compiled-plugin.js';
import { executeMethod } from '../execute-method.js';
import { grpcHost } from '../host/grpc-host.js';
import type { Host } from '../host/host.js';
import type { IncomingCall } from '../incoming-call.js';
import { inTraceOf } from '../telemetry/trace-context.js';
import { withTools } from '../tools/with-tools.js';
import { log } from './log.js';

const maxDetailLength = 1024;

/** What the services need of the process they run in. */
export interface ServicesContext {
  /** Connects to the host's service of a broker id. */
  dialHost(id: number): Promise<plugin.HostClient>;
  /** The stack of an error, with the places of the sources. */
  stackOf(error: unknown): string;
}

/** The Plugin service over a compiled plugin. */
export function pluginServices(compiled: CompiledPlugin, context: ServicesContext): plugin.PluginServer {
  let host = hostWithoutConnection('Bootstrap has not been called');
  return {
    bootstrap: (call, callback) => {
      host = withTools(compiled, connectedHost(call.request.hostServerId, context));
      start(compiled, host).then(
        () => callback(null, compiled.manifest),
        (error: unknown) => callback(failure('bootstrap', error, context)),
      );
    },
    onEvent: (call, callback) => {
      const { type } = call.request;
      inTraceOf(call.metadata, `answer ${type}`, () => answerEvent(compiled, call.request, incoming(call, host))).then(
        (answer) => callback(null, answer),
        (error: unknown) => callback(failure(type, error, context)),
      );
    },
    executeMethod: (call, callback) => {
      const { name } = call.request;
      inTraceOf(call.metadata, `run ${name}`, () => executeMethod(compiled, call.request, incoming(call, host))).then(
        (result) => {
          if (result === undefined) callback(serviceError(status.NOT_FOUND, `this plugin has no tool "${name}"`));
          else callback(null, result);
        },
        (error: unknown) => callback(failure(name, error, context)),
      );
    },
  };
}

async function start(compiled: CompiledPlugin, host: Host): Promise<void> {
  for (const tool of [...compiled.tools.values()]) await host.registerTool(tool);
  await compiled.definition.bootstrap?.(host);
}

function connectedHost(id: number, context: ServicesContext): Host {
  if (id === 0) return hostWithoutConnection('the host offers no call backs');
  // An announcement serves one dial, so the connection is made once and kept.
  let connection: Promise<plugin.HostClient> | undefined;
  return grpcHost(() => {
    connection ??= context.dialHost(id);
    return connection;
  });
}

function hostWithoutConnection(reason: string): Host {
  return grpcHost(() => Promise.reject(new Error(reason)));
}

// One for all: capturing a stack per call would tell nothing.
const NOT_AWAITED = new DOMException('the host does not wait for this answer any more', 'AbortError');

// Every call ends with the event `cancelled`; most handlers never look at the signal.
function incoming<Request, Reply>(call: ServerUnaryCall<Request, Reply>, host: Host): IncomingCall {
  let controller: AbortController | undefined;
  call.once('cancelled', () => controller?.abort(NOT_AWAITED));
  return {
    get signal() {
      if (controller === undefined) {
        controller = new AbortController();
        if (call.cancelled) controller.abort(NOT_AWAITED);
      }
      return controller.signal;
    },
    host,
    timeLeftMs: Math.max(Number(call.getDeadline()) - Date.now(), 0),
  };
}

function failure(what: string, error: unknown, context: ServicesContext): ServiceError {
  const message = error instanceof Error ? error.message : String(error);
  log.error(`${what} failed: ${message}`, { stack: context.stackOf(error) });
  return serviceError(status.UNKNOWN, message);
}

function serviceError(code: status, details: string): ServiceError {
  const text = details.slice(0, maxDetailLength);
  return Object.assign(new Error(text), { code, details: text, metadata: new Metadata() });
}
