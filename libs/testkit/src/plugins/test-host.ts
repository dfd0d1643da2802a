import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createHostIdentity, type HostIdentity } from '@codedock/plugin-sdk/testing';
import { health, plugin, wire } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';

const unlimited = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
const channelOptions: grpc.ChannelOptions = {
  ...unlimited,
  'grpc.default_authority': 'localhost',
  'grpc.ssl_target_name_override': 'localhost',
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
};
const callTimeoutMs = 10_000;

/** What the host offers a plugin, and when it says where. */
export interface TestHostOptions {
  /** Folder for the socket of the host's service. */
  readonly socketDirectory: string;
  /** Present with AutoMTLS. */
  readonly identity?: HostIdentity;
  /** Methods of the host's service; the others answer UNIMPLEMENTED. */
  readonly services?: Partial<plugin.HostServer>;
  /** When the service is announced: before Bootstrap (default), some milliseconds after it was called, or never. */
  readonly announce?: 'before' | 'after' | 'never';
}

/** What can be said about a call. */
export interface CallOptions {
  /** Milliseconds until the deadline; default 10 s. */
  readonly timeoutMs?: number;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
}

type Callback<Reply> = (error: grpc.ServiceError | null, reply: Reply) => void;

/** A small go-plugin host, connected to one plugin: enough to drive it, and nothing of the product's own host. */
export class TestHost {
  private readonly channel: grpc.Channel;
  private readonly service = new grpc.Server(unlimited);
  private readonly broker: grpc.ClientDuplexStream<wire.ConnInfo, wire.ConnInfo>;
  private readonly stdio: grpc.ClientReadableStream<wire.StdioData>;
  private readonly pieces: Buffer[] = [];
  private readonly client: plugin.PluginClient;
  private readonly socketPath: string;

  private constructor(
    private readonly target: string,
    private readonly pluginCertificate: string | undefined,
    private readonly options: TestHostOptions,
  ) {
    const credentials = this.clientCredentials();
    this.channel = new grpc.Channel(target, credentials, channelOptions);
    const shared = { channelOverride: this.channel };
    this.client = new plugin.PluginClient(target, credentials, shared);
    this.broker = new wire.GRPCBrokerClient(target, credentials, shared).startStream();
    this.broker.on('error', () => undefined);
    this.broker.on('data', () => undefined);
    this.stdio = new wire.GRPCStdioClient(target, credentials, shared).streamStdio({});
    this.stdio.on('data', (piece: wire.StdioData) => this.pieces.push(piece.data));
    this.stdio.on('error', () => undefined);
    this.socketPath = join(options.socketDirectory, `h${process.hrtime.bigint() % 1_000_000_000n}`);
  }

  /** Connects to the plugin that printed this handshake. @throws Error when it is no handshake of a gRPC plugin on a unix socket. */
  static connect(handshake: string, options: TestHostOptions): TestHost {
    const [core, app, network, address = '', protocol, certificate = ''] = handshake.trim().split('|');
    if (core !== '1' || app !== '1' || network !== 'unix' || protocol !== 'grpc') {
      throw new Error(`no handshake of a gRPC plugin on a unix socket: ${handshake}`);
    }
    return new TestHost(`unix:${address}`, certificate === '' ? undefined : pemOf(certificate), options);
  }

  /** What the plugin's code has printed to stdout so far. */
  get printed(): string {
    return Buffer.concat(this.pieces).toString('utf8');
  }

  /** Status of the go-plugin health service. */
  async health(): Promise<health.HealthCheckResponse_ServingStatus> {
    const client = new health.HealthClient(this.target, this.clientCredentials(), { channelOverride: this.channel });
    const reply = await unary<health.HealthCheckResponse>({}, (metadata, deadline, callback) =>
      client.check({ service: 'plugin' }, metadata, deadline, callback),
    );
    return reply.status;
  }

  /** Serves the host's methods and calls Bootstrap. */
  async bootstrap(): Promise<plugin.Manifest> {
    const { announce = 'before', services = {} } = this.options;
    this.service.addService(plugin.HostService, services as grpc.UntypedServiceImplementation);
    await new Promise<void>((resolve, reject) => {
      this.service.bindAsync(`unix:${this.socketPath}`, this.serverCredentials(), (error) =>
        error ? reject(error) : resolve(),
      );
    });
    const tell = () => this.broker.write({ serviceId: 1, network: 'unix', address: this.socketPath });
    if (announce === 'before') tell();
    const manifest = unary<plugin.Manifest>({}, (metadata, deadline, callback) =>
      this.client.bootstrap({ hostServerId: 1 }, metadata, deadline, callback),
    );
    if (announce === 'after') setTimeout(tell, 50);
    return manifest;
  }

  /** Asks a port or delivers an event. JSON members are given as values. */
  ask(
    type: string,
    payload: unknown,
    more: Partial<plugin.Envelope> = {},
    options: CallOptions = {},
  ): Promise<plugin.Envelope> {
    const envelope = plugin.Envelope.create({ sessionId: 's1', runId: 'r1', chainId: 'chain', ...more, type });
    envelope.payload = Buffer.from(JSON.stringify(payload));
    return unary(options, (metadata, deadline, callback) =>
      this.client.onEvent(envelope, metadata, deadline, callback),
    );
  }

  /** Executes a tool. */
  execute(
    name: string,
    args: unknown,
    more: Partial<plugin.MethodInput> = {},
    options: CallOptions = {},
  ): Promise<plugin.MethodResult> {
    const input = plugin.MethodInput.create({ sessionId: 's1', runId: 'r1', callId: 'c1', ...more, name });
    input.arguments = Buffer.from(JSON.stringify(args));
    return unary(options, (metadata, deadline, callback) =>
      this.client.executeMethod(input, metadata, deadline, callback),
    );
  }

  /** Takes leave as a Go host does: ends the broker stream, then asks the plugin to end. */
  async shutdown(options: CallOptions = {}): Promise<void> {
    this.broker.end();
    const client = new wire.GRPCControllerClient(this.target, this.clientCredentials(), {
      channelOverride: this.channel,
    });
    await unary<wire.Empty>(options, (metadata, deadline, callback) =>
      client.shutdown({}, metadata, deadline, callback),
    );
  }

  /** Drops the connection. */
  close(): void {
    this.broker.cancel();
    this.stdio.cancel();
    this.channel.close();
    this.service.forceShutdown();
    rmSync(this.socketPath, { force: true });
  }

  private clientCredentials(): grpc.ChannelCredentials {
    const { identity } = this.options;
    if (identity === undefined || this.pluginCertificate === undefined) return grpc.credentials.createInsecure();
    return grpc.credentials.createSsl(
      Buffer.from(this.pluginCertificate),
      Buffer.from(identity.privateKeyPem),
      Buffer.from(identity.certificatePem),
    );
  }

  private serverCredentials(): grpc.ServerCredentials {
    const { identity } = this.options;
    if (identity === undefined || this.pluginCertificate === undefined) return grpc.ServerCredentials.createInsecure();
    const pair = { private_key: Buffer.from(identity.privateKeyPem), cert_chain: Buffer.from(identity.certificatePem) };
    return grpc.ServerCredentials.createSsl(Buffer.from(this.pluginCertificate), [pair], true);
  }
}

/** Makes the certificate a host sends in PLUGIN_CLIENT_CERT. */
export { createHostIdentity };

function unary<Reply>(
  { timeoutMs = callTimeoutMs, signal }: CallOptions,
  start: (metadata: grpc.Metadata, options: { deadline: number }, callback: Callback<Reply>) => grpc.ClientUnaryCall,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const call = start(new grpc.Metadata(), { deadline: Date.now() + timeoutMs }, (error, reply) => {
      if (error === null) resolve(reply);
      else reject(error);
    });
    signal?.addEventListener('abort', () => call.cancel(), { once: true });
  });
}

function pemOf(base64: string): string {
  const lines =
    Buffer.from(base64, 'base64')
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
