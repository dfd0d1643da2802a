import { host } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';

/** A gateway's host API for one test: desired state as set, memory in a map, everything asked recorded. */
export interface FakeGateway {
  readonly target: string;
  readonly desired: { chainEpoch: number; disabled: string[] };
  readonly memory: Map<string, string>;
  readonly calls: { method: string; plugin: string; capability: string; background: boolean; token: string }[];
  readonly records: host.PluginRecord[];
  /** What is due, handed out in this order to whoever asks. */
  readonly batches: host.EventBatch[];
  readonly taken: host.TakeEventsRequest[];
  readonly settled: host.SettleEventsRequest[];
  close(): void;
}

export async function startFakeGateway(): Promise<FakeGateway> {
  const desired = { chainEpoch: 1, disabled: [] as string[] };
  const memory = new Map<string, string>();
  const calls: FakeGateway['calls'] = [];
  const records: host.PluginRecord[] = [];
  const batches: host.EventBatch[] = [];
  const taken: host.TakeEventsRequest[] = [];
  const settled: host.SettleEventsRequest[] = [];
  const values = new Map<string, Buffer>();
  let activeTools: string[] = ['ping'];
  type Asked = { caller?: host.Caller | undefined; session?: host.SessionRequest | undefined };
  const note = (method: string, call: { metadata: grpc.Metadata; request: Asked }) => {
    const caller = call.request.caller ?? call.request.session?.caller;
    calls.push({
      method,
      plugin: caller?.plugin ?? '',
      capability: caller?.capability.toString() ?? '',
      background: caller?.background ?? false,
      token: String(call.metadata.get('authorization')[0] ?? ''),
    });
  };
  const service: host.HostApiServer = {
    getDesired: (_, callback) => callback(null, desired),
    memoryGet: (call, callback) => {
      note('memoryGet', call);
      const text = memory.get(call.request.key?.name ?? '');
      if (text === undefined) callback({ code: grpc.status.NOT_FOUND, details: 'no such memory' });
      else callback(null, { text });
    },
    memoryUpsert: (call, callback) => {
      note('memoryUpsert', call);
      memory.set(call.request.entry?.key?.name ?? '', call.request.entry?.text ?? '');
      callback(null, {});
    },
    appendNotice: (call, callback) => {
      note('appendNotice', call);
      callback(null, {});
    },
    complete: (call, callback) => {
      note('complete', call);
      callback(null, { text: `completed ${call.request.request?.text}` });
    },
    getActiveTools: (call, callback) => {
      note('getActiveTools', call);
      callback(null, { names: activeTools });
    },
    setActiveTools: (call, callback) => {
      note('setActiveTools', call);
      activeTools = call.request.names;
      callback(null, {});
    },
    getSystemPrompt: (call, callback) => {
      note('getSystemPrompt', call);
      callback(null, { text: 'be kind' });
    },
    getSetting: (call, callback) => {
      note('getSetting', call);
      const value = values.get(call.request.key);
      if (value === undefined) callback({ code: grpc.status.NOT_FOUND, details: 'no such setting' });
      else callback(null, { value });
    },
    setSetting: (call, callback) => {
      note('setSetting', call);
      values.set(call.request.key, call.request.value);
      callback(null, {});
    },
    listSettings: (call, callback) => {
      note('listSettings', call);
      callback(null, { settings: [...values].map(([key, value]) => ({ key, value })) });
    },
    getSecret: (call, callback) => {
      note('getSecret', call);
      callback(null, { value: `secret of ${call.request.key}` });
    },
    setSecret: (call, callback) => {
      note('setSecret', call);
      callback(null, {});
    },
    listModels: (call, callback) => {
      note('listModels', call);
      callback(null, { models: ['fake'] });
    },
    recordPluginEvent: (call, callback) => {
      records.push(call.request);
      callback(null, {});
    },
    takeEvents: (call, callback) => {
      taken.push(call.request);
      callback(null, batches.shift() ?? host.EventBatch.create());
    },
    settleEvents: (call, callback) => {
      settled.push(call.request);
      callback(null, { held: true });
    },
  };
  const server = new grpc.Server();
  server.addService(host.HostApiService, service);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    target: `127.0.0.1:${port}`,
    desired,
    memory,
    calls,
    records,
    batches,
    taken,
    settled,
    close: () => server.forceShutdown(),
  };
}
