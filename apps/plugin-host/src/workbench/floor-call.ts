import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, credentials, type ServiceDefinition } from '@grpc/grpc-js';
import { createIdentity } from '../process/certificate.js';

/** One certificate for both ends, as PEM. */
export interface FloorTls {
  readonly certificatePem: string;
  readonly privateKeyPem: string;
}

/** A process that gives back what it gets. */
export interface Floor {
  call(payload: Buffer): Promise<unknown>;
  close(): Promise<void>;
}

const method = '/floor.Floor/Call';
const bytes = (value: Buffer): Buffer => value;

/** The one service of the floor, in raw bytes. */
export const floorService: ServiceDefinition = {
  call: {
    path: method,
    requestStream: false,
    responseStream: false,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  },
};

/** Starts the floor of a transport: a bare gRPC call (with mutual TLS where the plugin has it), or a line there and back. */
export function startFloor(transport: 'grpc' | 'stdio', withTls: boolean): Promise<Floor> {
  return transport === 'stdio' ? lineFloor() : callFloor(withTls);
}

async function callFloor(withTls: boolean): Promise<Floor> {
  const folder = await mkdtemp(join(tmpdir(), 'cdf-'));
  const target = `unix:${join(folder, 's')}`;
  const tls = withTls ? await createIdentity() : undefined;
  const { process: child, lines } = startProcess([target, ...(tls === undefined ? [] : [JSON.stringify(pemOf(tls))])]);
  await once(lines, 'line');
  const client = new Client(target, credentialsOf(tls), {
    'grpc.max_receive_message_length': -1,
    'grpc.ssl_target_name_override': 'localhost',
    'grpc.default_authority': 'localhost',
  });
  return {
    call: (payload) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(method, bytes, bytes, payload, (error, answer) =>
          error === null ? resolve(answer) : reject(error),
        );
      }),
    async close() {
      client.close();
      await ended(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function lineFloor(): Promise<Floor> {
  const { process: child, lines } = startProcess([]);
  return {
    async call(payload) {
      const answered = once(lines, 'line');
      child.stdin?.write(`${payload.toString('base64')}\n`);
      await answered;
    },
    close: () => ended(child),
  };
}

function startProcess(args: readonly string[]) {
  const child = spawn(process.execPath, [join(__dirname, 'floor-process.js'), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return { process: child, lines: createInterface({ input: child.stdout }) };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.stdin?.end();
  await exit;
}

function pemOf({ certificatePem, privateKeyPem }: FloorTls): FloorTls {
  return { certificatePem, privateKeyPem };
}

function credentialsOf(tls: FloorTls | undefined) {
  if (tls === undefined) return credentials.createInsecure();
  const certificate = Buffer.from(tls.certificatePem);
  return credentials.createSsl(certificate, Buffer.from(tls.privateKeyPem), certificate);
}
