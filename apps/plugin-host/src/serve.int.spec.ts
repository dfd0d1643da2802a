import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gate, health, plugin } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import pino from 'pino';
import { type FakeGateway, startFakeGateway } from '../test/fake-gateway.js';
import { createPluginRoot, type PluginRoot } from '../test/plugin-folder.js';
import { internalToken, testConfig, until } from '../test/test-host.js';
import { hostEnvironment } from './config.js';
import { type RunningPluginHost, servePluginHost } from './serve.js';

const log = pino({ level: 'silent' });
let root: PluginRoot;
let gateway: FakeGateway;
let running: RunningPluginHost;
let client: gate.GateServiceClient;
let address: string;

/** A file in which a plugin leaves a word. */
const note = (name: string) => join(root.temporary, name);

const allowed = new grpc.Metadata();
allowed.set('authorization', `Bearer ${internalToken}`);

beforeAll(async () => {
  root = createPluginRoot();
  root.addFixture('one', {
    subscriptions: ['agent/input', 'run.started'],
    answers: { 'agent/input': { append: '!' } },
    tools: [{ name: 'lookup' }],
    execute: { hang: true, noteAsked: note('tool-asked'), noteCancel: note('tool-cancelled') },
  });
  root.addFixture('two-hangs', {
    subscriptions: ['agent/pre-step'],
    answers: { 'agent/pre-step': { hang: true, noteAsked: note('asked'), noteCancel: note('cancelled') } },
  });
  root.addFixture('zz-later', {
    subscriptions: ['agent/pre-step'],
    answers: { 'agent/pre-step': { noteAsked: note('later-asked') } },
  });
  gateway = await startFakeGateway();
  const port = await freePort();
  address = `127.0.0.1:${port}`;
  running = await servePluginHost(testConfig(root.path, gateway, { PLUGIN_HOST_LISTEN: address }), log, {
    PATH: hostEnvironment['PATH'],
  });
  client = new gate.GateServiceClient(address, grpc.credentials.createInsecure());
  await until(() => running.host.ready);
});

afterAll(async () => {
  client.close();
  await running.close();
  gateway.close();
  root.remove();
});

async function freePort(): Promise<number> {
  const server = new grpc.Server();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  server.forceShutdown();
  return port;
}

const question = (minChainEpoch = 0): gate.GateRequest => ({
  port: 'agent/input',
  envelope: plugin.Envelope.fromPartial({ sessionId: 's', payload: Buffer.from('{"content":"x"}') }),
  minChainEpoch,
  budgetMs: 2_000,
  toolName: '',
});

function dispatch(request: gate.GateRequest, metadata = allowed): Promise<gate.GateAnswer> {
  return new Promise((resolve, reject) => {
    client.dispatch(request, metadata, { deadline: Date.now() + 5_000 }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
  });
}

describe('the gate service', () => {
  it('answers a gate', async () => {
    const answer = await dispatch(question());
    expect(JSON.parse(String(answer.envelope?.payload))).toEqual({ content: 'x!' });
    expect(answer.outcomes).toMatchObject([{ plugin: 'one', outcome: 'changed' }]);
  });

  it('lets nobody in without the token', async () => {
    const wrong = new grpc.Metadata();
    wrong.set('authorization', 'Bearer guessed');
    for (const metadata of [new grpc.Metadata(), wrong]) {
      await expect(dispatch(question(), metadata)).rejects.toMatchObject({
        code: grpc.status.UNAUTHENTICATED,
        details: expect.stringContaining('CODEDOCK_INTERNAL_TOKEN'),
      });
    }
  });

  it('answers and refuses over a stream as it does call by call', async () => {
    const replies: gate.DispatchReply[] = [];
    const stream = client.dispatchStream(allowed);
    stream.on('data', (reply: gate.DispatchReply) => replies.push(reply));
    stream.write({ id: 1, request: question() });
    stream.write({ id: 2, request: question(9) });
    stream.write({ id: 3, request: { ...question(), port: 'agent/output' } });
    await until(() => replies.length === 3);
    const [answered, behind, wrong] = [1, 2, 3].map((id) => replies.find((reply) => reply.id === id));
    expect(JSON.parse(String(answered?.answer?.envelope?.payload))).toEqual({ content: 'x!' });
    expect(behind?.refusal?.code).toBe(grpc.status.FAILED_PRECONDITION);
    expect(wrong?.refusal?.code).toBe(grpc.status.INVALID_ARGUMENT);
    stream.end();
    await once(stream, 'end');
  });

  it('lets no stream in without the token', async () => {
    const stream = client.dispatchStream(new grpc.Metadata());
    stream.on('data', () => undefined);
    stream.write({ id: 1, request: question() });
    const [error] = (await once(stream, 'error')) as [grpc.ServiceError];
    expect(error).toMatchObject({
      code: grpc.status.UNAUTHENTICATED,
      details: expect.stringContaining('CODEDOCK_INTERNAL_TOKEN'),
    });
  });

  it('refuses below the epoch the caller knows, and wrong ports', async () => {
    await expect(dispatch(question(9))).rejects.toMatchObject({ code: grpc.status.FAILED_PRECONDITION });
    await expect(dispatch({ ...question(), port: 'agent/output' })).rejects.toMatchObject({
      code: grpc.status.INVALID_ARGUMENT,
    });
  });

  it('pushes a snapshot at once and on every change', async () => {
    const snapshots: gate.Snapshot[] = [];
    const stream = client.watch({ client: 'test' }, allowed);
    stream.on('data', (snapshot: gate.Snapshot) => snapshots.push(snapshot));
    stream.on('error', () => undefined);
    await until(() => snapshots.length > 0);
    expect(snapshots[0]).toMatchObject({
      ready: true,
      chainEpoch: 1,
      ports: [
        {
          port: 'agent/input',
          subscribers: [{ plugin: 'one', version: '1.2.3', generation: 1, failurePolicy: 'closed', timeoutMs: 2_000 }],
        },
        { port: 'agent/pre-step' },
      ],
      tools: [{ plugin: 'one', name: 'lookup', effectClass: 'effectful', timeoutMs: 60_000, live: true }],
      events: [{ event: 'run.started', plugins: ['one'] }],
    });
    await running.host.stopPlugin('one');
    await until(() => snapshots.at(-1)?.ports[0]?.port !== 'agent/input');
    await running.host.startPlugin('one');
    await until(() => snapshots.at(-1)?.ports[0]?.subscribers[0]?.generation === 2);
    stream.cancel();
  });

  it('cancels a tool when the caller does', async () => {
    const input = plugin.MethodInput.fromPartial({ name: 'lookup', sessionId: 's' });
    const failed = new Promise<grpc.ServiceError | null>((resolve) => {
      const call = client.executeTool(
        { input, timeoutMs: 0, minChainEpoch: 0 },
        allowed,
        { deadline: Date.now() + 10_000 },
        (error) => resolve(error),
      );
      void until(() => existsSync(note('tool-asked'))).then(() => call.cancel());
    });
    expect(await failed).toMatchObject({ code: grpc.status.CANCELLED });
    await until(() => existsSync(note('tool-cancelled')));
  });

  it('ends the chain when the caller cancels the gate, down to the handler of the plugin', async () => {
    const failed = new Promise<grpc.ServiceError | null>((resolve) => {
      const call = client.dispatch(
        { ...question(), port: 'agent/pre-step' },
        allowed,
        { deadline: Date.now() + 10_000 },
        (error) => resolve(error),
      );
      void until(() => existsSync(note('asked'))).then(() => call.cancel());
    });
    expect(await failed).toMatchObject({ code: grpc.status.CANCELLED });
    await until(() => existsSync(note('cancelled')));
    expect(readFileSync(note('asked'), 'utf8')).toBe('agent/pre-step\n');
    expect(existsSync(note('later-asked'))).toBe(false);
  });

  it('tells probes without a token how it is', async () => {
    const probe = new health.HealthClient(address, grpc.credentials.createInsecure());
    for (const service of ['', 'readiness']) {
      const reply = await new Promise<health.HealthCheckResponse>((resolve, reject) => {
        probe.check({ service }, (error, answer) => (error ? reject(error) : resolve(answer)));
      });
      expect(reply.status).toBe(health.HealthCheckResponse_ServingStatus.SERVING);
    }
    probe.close();
  });

  // Last, because the host ends with it.
  it('ends the streams of its callers when it drains', async () => {
    const stream = client.dispatchStream(allowed);
    const ended = once(
      stream.on('data', () => undefined),
      'end',
    );
    stream.write({ id: 1, request: question() });
    await once(stream, 'data');
    await Promise.all([running.close(), ended]);
  });
});
