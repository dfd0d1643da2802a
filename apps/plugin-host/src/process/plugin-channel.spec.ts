import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { health, plugin } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import { Broker } from './broker.js';
import { createIdentity, type Identity } from './certificate.js';
import { channelOptions, PluginChannel } from './plugin-channel.js';

const mebibyte = 1024 * 1024;
const proxies = ['http_proxy', 'https_proxy', 'grpc_proxy'];

let folder: string;
let ofHost: Identity;
let ofPlugin: Identity;

beforeAll(async () => {
  [ofHost, ofPlugin] = await Promise.all([createIdentity(), createIdentity()]);
});

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'pc-'));
});

afterEach(() => {
  for (const name of proxies) delete process.env[name];
  rmSync(folder, { recursive: true, force: true });
});

/** Serves health and events as a plugin does, hands the channel of a host to `act`, and answers the authorities seen. */
async function served(
  address: string,
  tls: boolean,
  act: (channel: PluginChannel) => Promise<unknown>,
): Promise<readonly string[]> {
  const authorities: string[] = [];
  const server = new grpc.Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
  server.addService(health.HealthService, {
    check: (call: grpc.ServerUnaryCall<unknown, unknown>, callback: grpc.sendUnaryData<object>) => {
      authorities.push(call.getHost());
      callback(null, { status: health.HealthCheckResponse_ServingStatus.SERVING });
    },
    watch: () => undefined,
  });
  server.addService(plugin.PluginService, {
    bootstrap: (_: unknown, callback: grpc.sendUnaryData<plugin.Manifest>) => callback(null, plugin.Manifest.create()),
    onEvent: (_: unknown, callback: grpc.sendUnaryData<plugin.Envelope>) =>
      callback(null, plugin.Envelope.fromPartial({ payload: Buffer.alloc(8 * mebibyte) })),
    executeMethod: () => undefined,
  });
  const key = { private_key: Buffer.from(ofPlugin.privateKeyPem), cert_chain: Buffer.from(ofPlugin.certificatePem) };
  const credentials = tls
    ? grpc.ServerCredentials.createSsl(Buffer.from(ofHost.certificatePem), [key], true)
    : grpc.ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(address, credentials, (error, bound) => (error ? reject(error) : resolve(bound))),
  );
  const target = address.startsWith('unix:') ? address : `127.0.0.1:${port}`;
  const channel = new PluginChannel(
    { target, ...(tls ? { certificatePem: ofPlugin.certificatePem } : {}) },
    tls ? ofHost : undefined,
  );
  try {
    await act(channel);
    return authorities;
  } finally {
    channel.close();
    server.forceShutdown();
  }
}

describe('the connection to a plugin', () => {
  it.each([
    ['a unix socket', () => `unix:${join(folder, 's')}`, false],
    ['a unix socket with TLS', () => `unix:${join(folder, 's')}`, true],
    ['TCP', () => '127.0.0.1:0', false],
    ['TCP with TLS', () => '127.0.0.1:0', true],
  ])('over %s names the authority that every library takes', async (_, address, tls) => {
    expect(await served(address(), tls, (channel) => channel.checkHealth(20_000))).toEqual(['localhost']);
  });

  it('goes through no proxy', async () => {
    for (const name of proxies) process.env[name] = 'http://127.0.0.1:1';
    await served('127.0.0.1:0', false, (channel) => channel.checkHealth(20_000));
  });

  it('takes answers beyond the 4 MiB that gRPC takes by default', async () => {
    const ask = (channel: PluginChannel) =>
      new Promise((resolve, reject) =>
        channel.plugin.onEvent(plugin.Envelope.create(), (error, reply) =>
          error ? reject(error) : resolve(reply.payload.length),
        ),
      );
    await served(`unix:${join(folder, 's')}`, false, async (channel) => {
      expect(await ask(channel)).toBe(8 * mebibyte);
    });
  });

  it('sends no pings, which plugins answer by hanging up, and never falls idle', () => {
    expect(Object.keys(channelOptions).filter((name) => name.includes('keepalive'))).toEqual([]);
    expect(channelOptions['grpc.client_idle_timeout_ms']).toBe(2 ** 31 - 1);
  });

  it('shares no connection with other plugins', () => {
    expect(channelOptions['grpc.use_local_subchannel_pool']).toBe(1);
  });
});

describe('a service that is announced over the broker', () => {
  it('takes questions beyond 4 MiB, and each has a socket of its own in the private folder', async () => {
    const announced: string[] = [];
    const stream = {
      on: () => stream,
      write: ({ address }: { address: string }) => announced.push(address),
      cancel: () => undefined,
    };
    const broker = new Broker(
      { startStream: () => stream } as never,
      folder,
      () => grpc.ServerCredentials.createInsecure(),
      () => undefined,
    );
    const serve = () =>
      broker.serve((server) =>
        server.addService(plugin.HostService, {
          memoryUpsert: (_: unknown, callback: grpc.sendUnaryData<object>) => callback(null, {}),
        } as never),
      );
    expect([await serve(), await serve()]).toEqual([1, 2]);
    expect(announced).toEqual([join(folder, 'b1'), join(folder, 'b2')]);
    const client = new plugin.HostClient(`unix:${announced[0]}`, grpc.credentials.createInsecure(), {
      'grpc.max_send_message_length': -1,
    });
    await new Promise<void>((resolve, reject) =>
      client.memoryUpsert(plugin.MemoryEntry.fromPartial({ text: 'x'.repeat(5 * mebibyte) }), (error) =>
        error ? reject(error) : resolve(),
      ),
    );
    client.close();
    broker.close();
  });
});
