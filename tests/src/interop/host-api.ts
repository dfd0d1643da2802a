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
  readonly request: Request;
}

// Requests about a session carry it with its caller inside, the others beside their own fields.
function callerOf(request: unknown): host.Caller | undefined {
  const { caller, session } = request as { caller?: host.Caller; session?: host.SessionRequest };
  return caller ?? session?.caller;
}

type Answer = (error: { code: status; details: string } | null, reply?: object) => void;

const ofMemory = ({ key }: host.MemoryGetRequest) => key?.sessionId;
const ofMemoryEntry = ({ entry }: host.MemoryUpsertRequest) => entry?.key?.sessionId;
const ofNotice = ({ notice }: host.AppendNoticeRequest) => notice?.sessionId;
const ofCompletion = ({ request }: host.CompletionRequest) => request?.sessionId;
const ofSession = ({ sessionId }: host.SessionRequest) => sessionId;
const ofChange = ({ session }: { session?: host.SessionRequest | undefined }) => session?.sessionId;

/** Starts one. `capabilityKey` is the key that the caller of the gates signs with. */
export async function startTestHostApi(capabilityKey: string): Promise<TestHostApi> {
  const verify = capabilityVerifier(capabilityKey);
  const memory = new Map<string, string>();
  const notices: string[] = [];
  const callBacks: CallBack[] = [];
  const settings = new Map<string, Buffer>();
  const secrets = new Map<string, string>();
  let activeTools = ['ping'];
  // Answers a call-back whose capability is for the session it names.
  const allowed =
    <Request>(method: string, sessionOf: (request: Request) => string | undefined, act: (request: Request) => object) =>
    ({ request }: Call<Request>, answer: Answer) => {
      const caller = callerOf(request);
      const verified = verify(caller?.capability ?? Buffer.alloc(0), Date.now());
      const session = sessionOf(request) ?? '';
      if (verified.kind === 'refused' || verified.capability.session !== session) {
        answer({ code: status.PERMISSION_DENIED, details: `${method}: no authority for session ${session}` });
        return;
      }
      callBacks.push({ method, plugin: caller?.plugin ?? '', session });
      try {
        answer(null, act(request));
      } catch (error) {
        answer({ code: status.NOT_FOUND, details: (error as Error).message });
      }
    };
  const ofKey = ({ session, key }: host.KeyRequest) => `${session?.sessionId} ${key}`;
  const keyed = <Value>(values: Map<string, Value>, request: host.KeyRequest) => {
    const value = values.get(ofKey(request));
    if (value === undefined) throw new Error(`nothing is stored under ${request.key}`);
    return { value };
  };
  const services: UntypedServiceImplementation = {
    getDesired: (_: unknown, answer: Answer) => answer(null, { chainEpoch: 1, disabled: [] }),
    recordPluginEvent: (_: unknown, answer: Answer) => answer(null, {}),
    memoryGet: allowed<host.MemoryGetRequest>('MemoryGet', ofMemory, ({ key }) => {
      const text = memory.get(`${key?.sessionId} ${key?.name}`);
      if (text === undefined) throw new Error('MemoryGet: nothing is stored under that name');
      return { text };
    }),
    memoryUpsert: allowed<host.MemoryUpsertRequest>('MemoryUpsert', ofMemoryEntry, ({ entry }) => {
      memory.set(`${entry?.key?.sessionId} ${entry?.key?.name}`, entry?.text ?? '');
      return {};
    }),
    appendNotice: allowed<host.AppendNoticeRequest>('AppendNotice', ofNotice, ({ notice }) => {
      notices.push(notice?.text ?? '');
      return {};
    }),
    complete: allowed<host.CompletionRequest>('Complete', ofCompletion, ({ request }) => ({
      text: `${request?.prompt}: ${request?.text}`,
    })),
    getActiveTools: allowed<host.SessionRequest>('GetActiveTools', ofSession, () => ({ names: activeTools })),
    setActiveTools: allowed<host.ActiveToolsChange>('SetActiveTools', ofChange, ({ names }) => {
      activeTools = names;
      return {};
    }),
    getSystemPrompt: allowed<host.SessionRequest>('GetSystemPrompt', ofSession, () => ({ text: 'Sei höflich.' })),
    getSetting: allowed<host.KeyRequest>('GetSetting', ofChange, (request) => keyed(settings, request)),
    setSetting: allowed<host.SettingChange>('SetSetting', ofChange, (request) => {
      settings.set(ofKey(request), request.value);
      return {};
    }),
    getSecret: allowed<host.KeyRequest>('GetSecret', ofChange, (request) => keyed(secrets, request)),
    setSecret: allowed<host.SecretChange>('SetSecret', ofChange, (request) => {
      secrets.set(ofKey(request), request.value);
      return {};
    }),
    listModels: allowed<host.SessionRequest>('ListModels', ofSession, () => ({ models: ['openai/a', 'fake'] })),
  };
  const server = new Server();
  const offered = Object.entries(host.HostApiService).filter(([method]) => method in services);
  server.addService(Object.fromEntries(offered), services);
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
