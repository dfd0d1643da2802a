import { host, maxMessageBytes, type plugin } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import { failure } from '../grpc/status.js';

/** Milliseconds a call to the gateway may take. */
const callTimeoutMs = 5_000;

type Unary<Request, Reply> = (
  request: Request,
  metadata: grpc.Metadata,
  options: Partial<grpc.CallOptions>,
  callback: (error: grpc.ServiceError | null, reply: Reply) => void,
) => grpc.ClientUnaryCall;

/** What the gateway offers to this host; every call is answered or fails within 5 s. */
export interface HostApi {
  getDesired(request: host.GetDesiredRequest): Promise<host.Desired>;
  memoryGet(request: host.MemoryGetRequest): Promise<plugin.MemoryValue>;
  memoryUpsert(request: host.MemoryUpsertRequest): Promise<object>;
  appendNotice(request: host.AppendNoticeRequest): Promise<object>;
  recordPluginEvent(request: host.PluginRecord): Promise<object>;
}

/** How to reach the gateway's host API. */
export interface HostApiAddress {
  /** gRPC target: `127.0.0.1:7071`, `dns:///gateway:7071`. */
  readonly target: string;
  readonly credentials: grpc.ChannelCredentials;
  /** Bearer token, on loopback; absent with mutual TLS. */
  readonly token?: string;
}

/** A connection to the gateway's host API. */
export type HostApiConnection = HostApi & { close(): void };

const refuse = () =>
  Promise.reject(failure(grpc.status.UNAVAILABLE, 'this plugin-host knows no gateway; set CODEDOCK_HOST_API_URL'));

/** Where no gateway is configured: nothing is disabled, the epoch is 0, and call-backs are refused. */
export const absentHostApi: HostApiConnection = {
  getDesired: async () => ({ chainEpoch: 0, disabled: [] }),
  memoryGet: refuse,
  memoryUpsert: refuse,
  appendNotice: refuse,
  recordPluginEvent: async () => ({}),
  close: () => undefined,
};

/** A client of the gateway's host API. `close` drops the connection. */
export function connectHostApi(address: HostApiAddress): HostApiConnection {
  const client = new host.HostApiClient(address.target, address.credentials, {
    'grpc.max_receive_message_length': maxMessageBytes * 2,
    'grpc.max_send_message_length': maxMessageBytes * 2,
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2_000,
  });
  const metadata = new grpc.Metadata();
  if (address.token !== undefined) metadata.set('authorization', `Bearer ${address.token}`);
  return {
    getDesired: (request) => promiseOf(client.getDesired.bind(client), request, metadata),
    memoryGet: (request) => promiseOf(client.memoryGet.bind(client), request, metadata),
    memoryUpsert: (request) => promiseOf(client.memoryUpsert.bind(client), request, metadata),
    appendNotice: (request) => promiseOf(client.appendNotice.bind(client), request, metadata),
    recordPluginEvent: (request) => promiseOf(client.recordPluginEvent.bind(client), request, metadata),
    close: () => client.close(),
  };
}

function promiseOf<Request, Reply>(
  call: Unary<Request, Reply>,
  request: Request,
  metadata: grpc.Metadata,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    call(request, metadata, { deadline: Date.now() + callTimeoutMs }, (error, reply) =>
      error ? reject(error) : resolve(reply),
    );
  });
}
