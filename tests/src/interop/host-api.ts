import { capabilityVerifier } from '@codedock/plugin-bridge';
import { host } from '@codedock/proto';
import { Server, ServerCredentials, status, type UntypedServiceImplementation } from '@grpc/grpc-js';

/** A call-back that reached the gateway's side. */
export interface CallBack {
  readonly method: string;
  readonly plugin: string;
  readonly session: string;
}

/** The gateway's host API for one plugin-host: it checks the authority of every call-back, keeps memory and notices. */
export interface TestHostApi {
  readonly address: string;
  /** By session and name. */
  readonly memory: Map<string, string>;
  readonly notices: string[];
  readonly callBacks: CallBack[];
  close(): Promise<void>;
}

interface Call<Request> {
  readonly request: Request & { readonly caller?: host.Caller };
}
type Answer = (error: { code: status; details: string } | null, reply?: object) => void;

/** Starts one. `capabilityKey` is the key that the caller of the gates signs with. */
export async function startTestHostApi(capabilityKey: string): Promise<TestHostApi> {
  const verify = capabilityVerifier(capabilityKey);
  const memory = new Map<string, string>();
  const notices: string[] = [];
  const callBacks: CallBack[] = [];
  // Answers a call-back whose capability is for the session it names.
  const allowed =
    <Request>(method: string, sessionOf: (request: Request) => string | undefined, act: (request: Request) => object) =>
    ({ request }: Call<Request>, answer: Answer) => {
      const verified = verify(request.caller?.capability ?? Buffer.alloc(0), Date.now());
      const session = sessionOf(request) ?? '';
      if (verified.kind === 'refused' || verified.capability.session !== session) {
        answer({ code: status.PERMISSION_DENIED, details: `${method}: no authority for session ${session}` });
        return;
      }
      callBacks.push({ method, plugin: request.caller?.plugin ?? '', session });
      try {
        answer(null, act(request));
      } catch (error) {
        answer({ code: status.NOT_FOUND, details: (error as Error).message });
      }
    };
  const services: UntypedServiceImplementation = {
    getDesired: (_: unknown, answer: Answer) => answer(null, { chainEpoch: 1, disabled: [] }),
    memoryGet: allowed<host.MemoryGetRequest>(
      'MemoryGet',
      ({ key }) => key?.sessionId,
      ({ key }) => {
        const text = memory.get(`${key?.sessionId} ${key?.name}`);
        if (text === undefined) throw new Error('MemoryGet: nothing is stored under that name');
        return { text };
      },
    ),
    memoryUpsert: allowed<host.MemoryUpsertRequest>(
      'MemoryUpsert',
      ({ entry }) => entry?.key?.sessionId,
      ({ entry }) => {
        memory.set(`${entry?.key?.sessionId} ${entry?.key?.name}`, entry?.text ?? '');
        return {};
      },
    ),
    appendNotice: allowed<host.AppendNoticeRequest>(
      'AppendNotice',
      ({ notice }) => notice?.sessionId,
      ({ notice }) => {
        notices.push(notice?.text ?? '');
        return {};
      },
    ),
    recordPluginEvent: (_: unknown, answer: Answer) => answer(null, {}),
  };
  const server = new Server();
  const { getDesired, memoryGet, memoryUpsert, appendNotice, recordPluginEvent } = host.HostApiService;
  server.addService({ getDesired, memoryGet, memoryUpsert, appendNotice, recordPluginEvent }, services);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    address: `127.0.0.1:${port}`,
    memory,
    notices,
    callBacks,
    close: async () => server.forceShutdown(),
  };
}
