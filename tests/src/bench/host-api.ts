import { host } from '@codedock/proto';
import { Server, ServerCredentials } from '@grpc/grpc-js';

/** The least of a gateway that a plugin-host needs to become ready: a desired state without disabled plugins. */
export async function startHostApi(token: string): Promise<{ address: string; close(): Promise<void> }> {
  const server = new Server();
  server.addService(host.HostApiService, {
    getDesired: (
      call: { metadata: { get(name: string): unknown[] } },
      callback: (error: null | { code: number; details: string }, answer?: unknown) => void,
    ) => {
      if (call.metadata.get('authorization')[0] !== `Bearer ${token}`) callback({ code: 16, details: 'wrong token' });
      else callback(null, { chainEpoch: 1, disabled: [] });
    },
  } as never);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    address: `127.0.0.1:${port}`,
    close: () => new Promise((resolve) => server.tryShutdown(() => resolve())),
  };
}
