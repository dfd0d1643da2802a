import { join } from 'node:path';
import type { wire } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';

/** Options of every server on a brokered connection. */
const serverOptions = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.enable_channelz': 0,
};

/**
 * The host's side of go-plugin's broker: one stream for the life of the process, over which further listeners are
 * announced. A plugin forgets an announcement after 5 s, so it is made right before the call that carries its id.
 */
export class Broker {
  private nextId = 0;
  private readonly servers: grpc.Server[] = [];
  private readonly stream: grpc.ClientDuplexStream<wire.ConnInfo, wire.ConnInfo>;

  /** `onLost` is called when the stream ends: the plugin's broker is closed for good then. */
  constructor(
    client: wire.GRPCBrokerClient,
    private readonly directory: string,
    private readonly credentials: () => grpc.ServerCredentials,
    onLost: (reason: string) => void,
  ) {
    this.stream = client.startStream();
    this.stream.on('data', () => undefined);
    this.stream.on('error', (error: grpc.ServiceError) => onLost(error.details || error.message));
    this.stream.on('end', () => onLost('the plugin ended the broker stream'));
  }

  /** Serves on a new listener and announces it. Answers the id to hand to the plugin. */
  async serve(addServices: (server: grpc.Server) => void): Promise<number> {
    const id = ++this.nextId;
    const server = new grpc.Server(serverOptions);
    addServices(server);
    const address = join(this.directory, `b${id}`);
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${address}`, this.credentials(), (error) => (error ? reject(error) : resolve()));
    });
    this.servers.push(server);
    this.stream.write({ serviceId: id, network: 'unix', address });
    return id;
  }

  /** Ends the stream, which is how a host begins to take leave. */
  endStream(): void {
    this.stream.end();
  }

  /** Drops the stream and every listener. */
  close(): void {
    this.stream.cancel();
    for (const server of this.servers) server.forceShutdown();
  }
}
