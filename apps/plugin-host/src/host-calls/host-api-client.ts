import { host, maxMessageBytes, type plugin } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import { failure } from '../grpc/status.js';

/** Milliseconds a call to the gateway may take. */
const callTimeoutMs = 5_000;
/** Milliseconds by which a completion's deadline exceeds what the gateway gives it. */
const completionSlackMs = 2_000;

type Unary<Request, Reply> = (
  request: Request,
  metadata: grpc.Metadata,
  options: Partial<grpc.CallOptions>,
  callback: (error: grpc.ServiceError | null, reply: Reply) => void,
) => grpc.ClientUnaryCall;

/** What the gateway offers to this host; every call is answered or fails within 5 s, a completion within its own time. */
export interface HostApi {
  getDesired(request: host.GetDesiredRequest): Promise<host.Desired>;
  memoryGet(request: host.MemoryGetRequest): Promise<plugin.MemoryValue>;
  memoryUpsert(request: host.MemoryUpsertRequest): Promise<object>;
  appendNotice(request: host.AppendNoticeRequest): Promise<object>;
  complete(request: host.CompletionRequest, signal?: AbortSignal): Promise<plugin.CompleteResult>;
  getActiveTools(request: host.SessionRequest): Promise<plugin.ActiveTools>;
  setActiveTools(request: host.ActiveToolsChange): Promise<object>;
  getSystemPrompt(request: host.SessionRequest): Promise<plugin.SystemPrompt>;
  getSetting(request: host.KeyRequest): Promise<plugin.SettingValue>;
  setSetting(request: host.SettingChange): Promise<object>;
  listSettings(request: host.SessionRequest): Promise<host.SettingList>;
  getSecret(request: host.KeyRequest): Promise<plugin.SecretValue>;
  setSecret(request: host.SecretChange): Promise<object>;
  listModels(request: host.SessionRequest): Promise<plugin.Models>;
  recordPluginEvent(request: host.PluginRecord): Promise<object>;
  takeEvents(request: host.TakeEventsRequest): Promise<host.EventBatch>;
  settleEvents(request: host.SettleEventsRequest): Promise<host.EventsSettled>;
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
  complete: refuse,
  getActiveTools: refuse,
  setActiveTools: refuse,
  getSystemPrompt: refuse,
  getSetting: refuse,
  setSetting: refuse,
  listSettings: refuse,
  getSecret: refuse,
  setSecret: refuse,
  listModels: refuse,
  recordPluginEvent: async () => ({}),
  takeEvents: refuse,
  settleEvents: refuse,
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
  const via =
    <Request, Reply>(call: Unary<Request, Reply>) =>
    (request: Request) =>
      promiseOf(call.bind(client), request, metadata, callTimeoutMs);
  return {
    getDesired: via(client.getDesired),
    memoryGet: via(client.memoryGet),
    memoryUpsert: via(client.memoryUpsert),
    appendNotice: via(client.appendNotice),
    complete: (request, signal) =>
      promiseOf(client.complete.bind(client), request, metadata, request.timeoutMs + completionSlackMs, signal),
    getActiveTools: via(client.getActiveTools),
    setActiveTools: via(client.setActiveTools),
    getSystemPrompt: via(client.getSystemPrompt),
    getSetting: via(client.getSetting),
    setSetting: via(client.setSetting),
    listSettings: via(client.listSettings),
    getSecret: via(client.getSecret),
    setSecret: via(client.setSecret),
    listModels: via(client.listModels),
    recordPluginEvent: via(client.recordPluginEvent),
    takeEvents: via(client.takeEvents),
    settleEvents: via(client.settleEvents),
    close: () => client.close(),
  };
}

function promiseOf<Request, Reply>(
  call: Unary<Request, Reply>,
  request: Request,
  metadata: grpc.Metadata,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const giveUp = () => pending.cancel();
    const pending = call(request, metadata, { deadline: Date.now() + timeoutMs }, (error, reply) => {
      signal?.removeEventListener('abort', giveUp);
      if (error) reject(error);
      else resolve(reply);
    });
    signal?.addEventListener('abort', giveUp, { once: true });
    if (signal?.aborted) giveUp();
  });
}
