// One process of the floor: answers a unary call with its own bytes, or forwards it to the next process first. Bare
// grpc-js, raw buffers, no codec: what two hops cost before anything of ours.
import {
  type ChannelOptions,
  Client,
  credentials,
  Server,
  ServerCredentials,
  type ServiceDefinition,
} from '@grpc/grpc-js';

/** The one method of the floor. */
export const FLOOR_METHOD = '/floor.Floor/Call';

/** One certificate for both ends of a hop, as PEM; travels in the variable FLOOR_TLS as JSON. */
export interface FloorTls {
  readonly certificatePem: string;
  readonly privateKeyPem: string;
}

const bytes = (value: Buffer): Buffer => value;
const service: ServiceDefinition = {
  call: {
    path: FLOOR_METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  },
};
const options: ChannelOptions = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };

/** A client of a floor process. */
export function floorClient(target: string, tls?: FloorTls): { call(payload: Buffer): Promise<Buffer>; close(): void } {
  const client = new Client(target, clientCredentials(tls), {
    ...options,
    ...(tls === undefined
      ? {}
      : { 'grpc.ssl_target_name_override': 'localhost', 'grpc.default_authority': 'localhost' }),
  });
  return {
    call: (payload) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(FLOOR_METHOD, bytes, bytes, payload, (error, answer) =>
          error ? reject(error) : resolve(answer as Buffer),
        );
      }),
    close: () => client.close(),
  };
}

function clientCredentials(tls: FloorTls | undefined) {
  if (tls === undefined) return credentials.createInsecure();
  const certificate = Buffer.from(tls.certificatePem);
  return credentials.createSsl(certificate, Buffer.from(tls.privateKeyPem), certificate);
}

function serverCredentials(tls: FloorTls | undefined) {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const certificate = Buffer.from(tls.certificatePem);
  return ServerCredentials.createSsl(
    certificate,
    [{ private_key: Buffer.from(tls.privateKeyPem), cert_chain: certificate }],
    true,
  );
}

/** Listens at the first argument; forwards to the second, if there is one. TLS, if any, is between the two processes. */
function serve(listen: string, next: string | undefined): void {
  const { FLOOR_TLS } = process.env;
  const tls = FLOOR_TLS === undefined ? undefined : (JSON.parse(FLOOR_TLS) as FloorTls);
  const server = new Server(options);
  const onward = next === undefined ? undefined : floorClient(next, tls);
  server.addService(service, {
    call: (call: { request: Buffer }, callback: (error: Error | null, answer?: Buffer) => void) => {
      if (onward === undefined) callback(null, call.request);
      else onward.call(call.request).then((answer) => callback(null, answer), callback);
    },
  });
  server.bindAsync(listen, serverCredentials(onward === undefined ? tls : undefined), (error) => {
    if (error) throw error;
    console.log('listening');
  });
}

if (require.main === module) serve(process.argv[2] as string, process.argv[3]);
