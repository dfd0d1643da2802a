import { gate, type Port, type plugin } from '@codedock/proto';
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { serveDispatchStream } from '../src/stream/serve-dispatch-stream.js';

type Dispatch = (request: gate.GateRequest) => Promise<gate.GateAnswer> | gate.GateAnswer;

/** A real gate service in this process whose snapshots and answers a test decides. */
export class GateHost {
  readonly asked: gate.GateRequest[] = [];
  readonly notified: plugin.Envelope[] = [];
  readonly executed: gate.ToolRequest[] = [];
  readonly authorizations: string[] = [];
  cancelled = 0;
  /** Calls that came by themselves, and streams that were opened. */
  readonly transport = { alone: 0, streams: 0 };
  /** Decides answers; a thrown `{code, details}` becomes the status. */
  onDispatch: Dispatch = (request) => answerTo(request);
  onNotify: (envelope: plugin.Envelope) => Promise<void> | void = () => undefined;
  onTool: (request: gate.ToolRequest) => Promise<gate.ToolAnswer> | gate.ToolAnswer = () => toolAnswer('answered');
  port = 0;
  private server: Server | undefined;
  private readonly watchers = new Set<ServerWritableStream<gate.WatchRequest, gate.Snapshot>>();

  /** `streams: false`: a host of a version without `DispatchStream`. */
  constructor(
    private snapshot: gate.Snapshot | undefined,
    private readonly options: { readonly streams?: boolean } = {},
  ) {}

  get url(): string {
    return `127.0.0.1:${this.port}`;
  }

  get watching(): number {
    return this.watchers.size;
  }

  async start(port = 0): Promise<this> {
    const server = new Server({ 'grpc.max_receive_message_length': -1 });
    const unary =
      <Q, A>(handle: (request: Q) => Promise<A> | A) =>
      (call: ServerUnaryCall<Q, A>, done: sendUnaryData<A>) => {
        call.on('cancelled', () => {
          this.cancelled += 1;
        });
        this.authorizations.push(String(call.metadata.get('authorization')[0] ?? ''));
        Promise.resolve()
          .then(() => handle(call.request))
          .then(
            (answer) => done(null, answer),
            (error: object) => done(error),
          );
      };
    server.addService(gate.GateServiceService, {
      watch: (call: ServerWritableStream<gate.WatchRequest, gate.Snapshot>) => {
        this.watchers.add(call);
        call.on('cancelled', () => this.watchers.delete(call));
        if (this.snapshot !== undefined) call.write(this.snapshot);
      },
      dispatch: unary<gate.GateRequest, gate.GateAnswer>((request) => {
        this.transport.alone += 1;
        this.asked.push(request);
        return this.onDispatch(request);
      }),
      dispatchStream: (call: ServerDuplexStream<gate.DispatchCall, gate.DispatchReply>) => {
        if (this.options.streams === false) {
          call.emit('error', failing(12, 'no such method'));
          return;
        }
        this.transport.streams += 1;
        this.authorizations.push(String(call.metadata.get('authorization')[0] ?? ''));
        serveDispatchStream(call, {
          dispatch: async (request, signal) => {
            signal.addEventListener('abort', () => {
              this.cancelled += 1;
            });
            this.asked.push(request);
            return this.onDispatch(request);
          },
          refusalOf: (error) => error as { code: number; details: string },
        });
      },
      notify: unary<gate.NotifyRequest, object>(async ({ envelope }) => {
        if (envelope !== undefined) this.notified.push(envelope);
        if (envelope !== undefined) await this.onNotify(envelope);
        return {};
      }),
      executeTool: unary<gate.ToolRequest, gate.ToolAnswer>((request) => {
        this.executed.push(request);
        return this.onTool(request);
      }),
      listPlugins: unary<object, gate.PluginList>(() => ({ plugins: [] })),
      stopPlugin: unary<gate.PluginName, gate.PluginStatus>(() => {
        throw Object.assign(new Error('no such plugin'), { code: 5, details: 'no such plugin' });
      }),
      startPlugin: unary<gate.PluginName, gate.PluginStatus>(({ name }) => gate.PluginStatus.fromPartial({ name })),
      reloadPlugin: unary<gate.PluginName, gate.PluginStatus>(({ name }) => gate.PluginStatus.fromPartial({ name })),
      refresh: unary<object, gate.RefreshResult>(() => ({
        chainEpoch: this.snapshot?.chainEpoch ?? 0,
        disabled: [],
      })),
    });
    this.port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    this.server = server;
    return this;
  }

  /** Changes the snapshot and tells the watchers. */
  show(snapshot: gate.Snapshot): void {
    this.snapshot = snapshot;
    for (const watcher of this.watchers) watcher.write(snapshot);
  }

  /** Ends every watch as a draining host does. */
  endWatches(): void {
    for (const watcher of this.watchers) watcher.end();
    this.watchers.clear();
  }

  /** As a killed process: connections break at once. */
  kill(): void {
    this.watchers.clear();
    this.server?.forceShutdown();
    this.server = undefined;
  }
}

/** A snapshot with these subscribers per port. */
export function snapshotWith(
  ports: Partial<Record<Port, readonly Partial<gate.Subscriber>[]>>,
  more: Partial<gate.Snapshot> = {},
): gate.Snapshot {
  return gate.Snapshot.fromPartial({
    instanceId: 'host',
    chainEpoch: 1,
    ready: true,
    ports: Object.entries(ports).map(([port, subscribers]) => ({
      port,
      subscribers: subscribers.map((one) => ({
        plugin: 'policy',
        version: '1.0.0',
        ready: true,
        everReady: true,
        required: true,
        failurePolicy: 'open',
        ...one,
      })),
    })),
    ...more,
  });
}

/** The answer of a chain that changes nothing, with these fields of the envelope laid over. */
export function answerTo(
  request: gate.GateRequest,
  envelope: Partial<plugin.Envelope> = {},
  more: Partial<gate.GateAnswer> = {},
): gate.GateAnswer {
  return gate.GateAnswer.fromPartial({
    envelope: { ...(request.envelope ?? {}), type: '', ...envelope },
    outcomes: [],
    askReasons: [],
    chainEpoch: Math.max(1, request.minChainEpoch),
    ...more,
  });
}

/** A tool's answer. */
export function toolAnswer(outcome: string, result: Partial<plugin.MethodResult> = {}): gate.ToolAnswer {
  return gate.ToolAnswer.fromPartial({
    outcome,
    plugin: 'policy',
    result: { success: true, output: Buffer.from('{"ok":true}'), error: '', ...result },
  });
}

/** A failure with this status. */
export function failing(code: number, details = 'failed'): Error {
  return Object.assign(new Error(details), { code, details });
}

/** Waits until a condition holds; fails after twenty seconds. */
export async function until(condition: () => boolean, what: string, ms = 20_000): Promise<void> {
  const end = Date.now() + ms;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
