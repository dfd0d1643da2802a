// The other end of the floor: answers every call with its own bytes. Bare grpc-js on a Unix socket, or lines on stdio;
// the least that asking another process can cost on this machine.
import { createInterface } from 'node:readline';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { type FloorTls, floorService } from './floor-call.js';

const bytesAsTheyAre = (call: { request: Buffer }, callback: (error: null, answer: Buffer) => void) =>
  callback(null, call.request);

function serveCalls(target: string, tls: FloorTls | undefined): void {
  const server = new Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
  server.addService(floorService, { call: bytesAsTheyAre });
  server.bindAsync(target, credentialsOf(tls), (error) => {
    if (error) throw error;
    process.stdout.write('listening\n');
  });
  // Its parent holds the other end: gone, and so is this process.
  process.stdin.resume().on('end', () => process.exit(0));
}

function credentialsOf(tls: FloorTls | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const certificate = Buffer.from(tls.certificatePem);
  const pair = { private_key: Buffer.from(tls.privateKeyPem), cert_chain: certificate };
  return ServerCredentials.createSsl(certificate, [pair], true);
}

function serveLines(): void {
  createInterface({ input: process.stdin }).on('line', (line) => process.stdout.write(`${line}\n`));
}

const [target, tls] = process.argv.slice(2);
if (target === undefined) serveLines();
else serveCalls(target, tls === undefined ? undefined : (JSON.parse(tls) as FloorTls));
