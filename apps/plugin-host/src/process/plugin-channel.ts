import { AppError } from '@codedock/domain';
import { health, plugin, wire } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import type { Identity } from './certificate.js';
import type { Handshake } from './handshake.js';

/** What every channel to a plugin is made with. */
export const channelOptions: grpc.ChannelOptions = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.default_authority': 'localhost',
  'grpc.ssl_target_name_override': 'localhost',
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.client_idle_timeout_ms': 2 ** 31 - 1,
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
};

const healthService = 'plugin';
const noMetadata = new grpc.Metadata();

/** The one connection to a plugin process, and a client for each of its services. */
export class PluginChannel {
  readonly plugin: plugin.PluginClient;
  readonly broker: wire.GRPCBrokerClient;
  private readonly controller: wire.GRPCControllerClient;
  private readonly stdio: wire.GRPCStdioClient;
  private readonly health: health.HealthClient;
  private readonly channel: grpc.Channel;
  private stdioStream: grpc.ClientReadableStream<wire.StdioData> | undefined;

  constructor(
    handshake: Handshake,
    private readonly identity: Identity | undefined,
  ) {
    this.certificatePem = handshake.certificatePem;
    const credentials = this.clientCredentials();
    this.channel = new grpc.Channel(handshake.target, credentials, channelOptions);
    const shared = { channelOverride: this.channel };
    this.plugin = new plugin.PluginClient(handshake.target, credentials, shared);
    this.broker = new wire.GRPCBrokerClient(handshake.target, credentials, shared);
    this.controller = new wire.GRPCControllerClient(handshake.target, credentials, shared);
    this.stdio = new wire.GRPCStdioClient(handshake.target, credentials, shared);
    this.health = new health.HealthClient(handshake.target, credentials, shared);
  }

  private readonly certificatePem: string | undefined;
  /** False once the plugin has said that it has no service for what its code prints, as before go-plugin 1.1. */
  takesPrints = true;

  /** Reads what the plugin's code prints, for the life of the connection; plugins without the service are fine. */
  readOutput(onBytes: (chunk: Uint8Array) => void): void {
    this.stdioStream = this.stdio.streamStdio({});
    this.stdioStream.on('data', (piece: wire.StdioData) => onBytes(piece.data));
    this.stdioStream.on('error', (error: grpc.ServiceError) => {
      if (error.code === grpc.status.UNIMPLEMENTED) this.takesPrints = false;
    });
  }

  /** Asks for the plugin's health. @throws AppError `plugin_refused` with the cause in words. */
  async checkHealth(timeoutMs: number): Promise<void> {
    const status = await new Promise<number>((resolve, reject) => {
      this.health.check(
        { service: healthService },
        noMetadata,
        { deadline: Date.now() + timeoutMs },
        (error, reply) => {
          if (error) reject(new AppError('plugin_refused', describeHealthError(error, timeoutMs)));
          else resolve(reply.status);
        },
      );
    });
    if (status !== health.HealthCheckResponse_ServingStatus.SERVING) {
      throw new AppError('plugin_refused', `its health service says status ${status} instead of SERVING (1)`);
    }
  }

  /** Server credentials for brokered listeners: the plugin's certificate is demanded, and only that one. */
  serverCredentials(): grpc.ServerCredentials {
    if (this.identity === undefined || this.certificatePem === undefined)
      return grpc.ServerCredentials.createInsecure();
    const { privateKeyPem, certificatePem } = this.identity;
    return grpc.ServerCredentials.createSsl(
      Buffer.from(this.certificatePem),
      [{ private_key: Buffer.from(privateKeyPem), cert_chain: Buffer.from(certificatePem) }],
      true,
    );
  }

  /** Asks the plugin to end; settles when it answered or dropped the connection. */
  shutdown(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.controller.shutdown({}, noMetadata, { deadline: Date.now() + timeoutMs }, () => resolve());
    });
  }

  close(): void {
    this.stdioStream?.cancel();
    this.channel.close();
  }

  private clientCredentials(): grpc.ChannelCredentials {
    if (this.identity === undefined || this.certificatePem === undefined) return grpc.credentials.createInsecure();
    return grpc.credentials.createSsl(
      Buffer.from(this.certificatePem),
      Buffer.from(this.identity.privateKeyPem),
      Buffer.from(this.identity.certificatePem),
    );
  }
}

/** The cause of a failed health check; the texts come from several layers below, so they are matched, not shown alone. */
export function describeHealthError(error: grpc.ServiceError, timeoutMs: number): string {
  const text = error.details || error.message;
  switch (error.code) {
    case grpc.status.UNIMPLEMENTED:
    case grpc.status.NOT_FOUND:
      return 'it serves no go-plugin health service for "plugin"; build it with a go-plugin library';
    case grpc.status.DEADLINE_EXCEEDED:
      return `it accepted the connection and did not answer a health check within ${timeoutMs} ms`;
    case grpc.status.UNAVAILABLE:
      if (text.includes('ENOENT')) return 'the socket it announced does not exist';
      if (text.includes('ECONNREFUSED')) return 'nothing listens on the address it announced';
      if (/self[- ]signed|certificate|altnames|unable to verify/i.test(text))
        return `the certificate it uses is not the one it announced (${text})`;
      if (/wrong version number|packet length|ssl|tls/i.test(text))
        return `it does not speak TLS on the address it announced (${text})`;
      if (/protocol error|parse error|frame/i.test(text))
        return "it does not speak HTTP/2 on the address it announced; build it with go-plugin's gRPC protocol";
      return `it cannot be reached on the address it announced (${text})`;
    default:
      return `its health check failed with gRPC code ${error.code}: ${text}`;
  }
}
