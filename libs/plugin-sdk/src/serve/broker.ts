import type { wire } from '@codedock/proto';
import type { handleBidiStreamingCall, ServerDuplexStream } from '@grpc/grpc-js';

const dialTimeoutMs = 5_000;

/** The plugin's side of go-plugin's broker: remembers where the host announced its services, in whichever order. */
export class Broker {
  private readonly announced = new Map<number, wire.ConnInfo>();
  private readonly waiting = new Map<number, (connection: wire.ConnInfo) => void>();

  /** `onLost` is called when the host's stream ends; it never comes back. */
  constructor(private readonly onLost: () => void) {}

  /** Serves `GRPCBroker.StartStream`. */
  readonly startStream: handleBidiStreamingCall<wire.ConnInfo, wire.ConnInfo> = (
    stream: ServerDuplexStream<wire.ConnInfo, wire.ConnInfo>,
  ) => {
    let lost = false;
    const onEnd = () => {
      if (!lost) this.onLost();
      lost = true;
    };
    stream.on('data', (connection: wire.ConnInfo) => this.announce(connection));
    stream.on('error', onEnd);
    stream.on('cancelled', onEnd);
    stream.on('end', () => {
      stream.end();
      onEnd();
    });
  };

  /** Where the service of an id is; waits for the announcement, at most 5 s. Each announcement serves one dial. */
  dial(id: number): Promise<wire.ConnInfo> {
    const announced = this.announced.get(id);
    if (announced !== undefined) {
      this.announced.delete(id);
      return Promise.resolve(announced);
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(new Error(`the host announced no service ${id} on its broker within ${dialTimeoutMs} ms`));
      }, dialTimeoutMs);
      this.waiting.set(id, (connection) => {
        clearTimeout(timer);
        resolve(connection);
      });
    });
  }

  private announce(connection: wire.ConnInfo): void {
    const waiting = this.waiting.get(connection.serviceId);
    if (waiting === undefined) {
      if (!this.announced.has(connection.serviceId)) this.announced.set(connection.serviceId, connection);
      return;
    }
    this.waiting.delete(connection.serviceId);
    waiting(connection);
  }
}
