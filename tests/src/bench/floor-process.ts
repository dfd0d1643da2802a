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
export function floorClient(target: string): { call(payload: Buffer): Promise<Buffer>; close(): void } {
  const client = new Client(target, credentials.createInsecure(), options);
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

function serve(listen: string, next: string | undefined): void {
  const server = new Server(options);
  const onward = next === undefined ? undefined : floorClient(next);
  server.addService(service, {
    call: (call: { request: Buffer }, callback: (error: Error | null, answer?: Buffer) => void) => {
      if (onward === undefined) callback(null, call.request);
      else onward.call(call.request).then((answer) => callback(null, answer), callback);
    },
  });
  server.bindAsync(listen, ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
    console.log('listening');
  });
}

if (require.main === module) serve(process.argv[2] as string, process.argv[3]);
