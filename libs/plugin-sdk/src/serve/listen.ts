import { health, plugin, wire } from '@codedock/proto';
import { type ChannelOptions, Server, status } from '@grpc/grpc-js';
import type { HostEnvironment } from '../config/host-environment.js';
import { appProtocolVersions } from '../version.js';
import { Broker } from './broker.js';
import type { OutputStream } from './output-stream.js';
import { createSocketPath } from './socket-path.js';
import { createTransportSecurity } from './transport-security.js';

const serverOptions = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.enable_channelz': 0,
};
const clientOptions: ChannelOptions = {
  ...serverOptions,
  'grpc.default_authority': 'localhost',
  'grpc.ssl_target_name_override': 'localhost',
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.client_idle_timeout_ms': 2 ** 31 - 1,
};
const healthService = 'plugin';

/** What listening needs. */
export interface ListenOptions {
  readonly environment: HostEnvironment;
  readonly printed: OutputStream;
  /** Makes the plugin's own service; `dialHost` connects to the host's service of a broker id. */
  services(dialHost: (id: number) => Promise<plugin.HostClient>): plugin.PluginServer;
  /** The host asks the plugin to end; `answer` tells it that the plugin does. */
  onShutdown(answer: () => void): void;
  /** The host's broker stream has ended: the host is gone, or about to say so. */
  onHostLost(): void;
}

/** A plugin that can be connected to. */
export interface Listening {
  /** The line to print first on stdout, without its line feed. */
  readonly handshake: string;
  /** Drops every connection and removes the socket. */
  close(): void;
  /** Only removes the socket: a process that ends drops its connections, and its calls then fail as such. */
  removeSocket(): void;
}

/**
 * Serves a plugin on a new unix socket, as go-plugin's hosts expect it.
 * @throws Error when the socket cannot be made, in words for the plugin's operator.
 */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { environment } = options;
  const socket = createSocketPath(environment.socketDirectory);
  const security = await createTransportSecurity(environment.clientCertificate);
  const broker = new Broker(options.onHostLost);
  const clients: plugin.HostClient[] = [];
  const dialHost = async (id: number) => {
    const { network, address } = await broker.dial(id);
    const client = new plugin.HostClient(
      network === 'unix' ? `unix:${address}` : address,
      security.client,
      clientOptions,
    );
    clients.push(client);
    return client;
  };
  const server = new Server(serverOptions);
  server.addService(plugin.PluginService, options.services(dialHost));
  addGoPluginServices(server, broker, options);
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket.path}`, security.server, (error) => (error ? reject(error) : resolve()));
  });
  return {
    handshake: handshakeLine(environment, socket.path, security.handshakeField),
    close: () => {
      for (const client of clients) client.close();
      server.forceShutdown();
      socket.remove();
    },
    removeSocket: () => socket.remove(),
  };
}

/** The handshake: the seventh field only for hosts that ask, because older ones read six. */
export function handshakeLine(environment: HostEnvironment, socketPath: string, certificate: string): string {
  const line = `1|${negotiatedVersion(environment.protocolVersions)}|unix|${socketPath}|grpc|${certificate}`;
  return environment.asksForMultiplexing ? `${line}|false` : line;
}

/** The highest version both speak; without one, the plugin's lowest, which the host then refuses. */
function negotiatedVersion(offered: readonly number[]): number {
  const common = appProtocolVersions.filter((version) => offered.includes(version));
  return common.length === 0 ? Math.min(...appProtocolVersions) : Math.max(...common);
}

function addGoPluginServices(server: Server, broker: Broker, { printed, onShutdown }: ListenOptions): void {
  const healthServer: health.HealthServer = {
    check: (call, callback) => {
      if (call.request.service === healthService || call.request.service === '') {
        callback(null, { status: health.HealthCheckResponse_ServingStatus.SERVING });
      } else callback({ code: status.NOT_FOUND, details: 'unknown service' });
    },
    watch: (stream) => stream.write({ status: health.HealthCheckResponse_ServingStatus.SERVING }),
  };
  const controller: wire.GRPCControllerServer = {
    shutdown: (_, callback) => {
      onShutdown(() => callback(null, {}));
    },
  };
  const stdio: wire.GRPCStdioServer = {
    streamStdio: (stream) => {
      printed.attach(stream);
      stream.on('cancelled', () => printed.detach(stream));
      stream.on('error', () => printed.detach(stream));
    },
  };
  server.addService(health.HealthService, healthServer);
  server.addService(wire.GRPCBrokerService, { startStream: broker.startStream } satisfies wire.GRPCBrokerServer);
  server.addService(wire.GRPCControllerService, controller);
  server.addService(wire.GRPCStdioService, stdio);
}
