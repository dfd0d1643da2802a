import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { plugin } from '@codedock/proto';
import { createHostIdentity, eventually, TestHost, type TestHostOptions } from '@codedock/testkit';
import { status } from '@grpc/grpc-js';
import { z } from 'zod';
import { compilePlugin } from '../compiled-plugin.js';
import { readHostEnvironment } from '../config/host-environment.js';
import { defineTool, HostCallError, type PluginDefinition } from '../index.js';
import { handshakeLine, type Listening, listen } from './listen.js';
import { OutputStream } from './output-stream.js';
import { pluginServices } from './plugin-services.js';

const base = { name: 'tested', version: '1.2.3' };

let directory: string;
let listening: Listening | undefined;
let host: TestHost | undefined;
let printed: OutputStream;
let ended: string[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cdl'));
  printed = new OutputStream();
  ended = [];
});

afterEach(() => {
  host?.close();
  listening?.close();
  expect(readdirSync(directory)).toEqual([]);
  rmSync(directory, { recursive: true });
});

async function serve(definition: PluginDefinition, options: Partial<TestHostOptions> = {}): Promise<TestHost> {
  const compiled = compilePlugin(definition);
  listening = await listen({
    environment: readHostEnvironment({
      PLUGIN_UNIX_SOCKET_DIR: directory,
      PLUGIN_PROTOCOL_VERSIONS: '1',
      PLUGIN_CLIENT_CERT: options.identity?.certificatePem,
    }),
    printed,
    services: (dialHost) => pluginServices(compiled, { dialHost, stackOf: String }),
    onShutdown: (answer) => {
      ended.push('shutdown');
      answer();
    },
    onHostLost: () => ended.push('lost'),
  });
  host = TestHost.connect(listening.handshake, { socketDirectory: directory, ...options });
  return host;
}

function deferred<T>() {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('utf8');

describe.each(['plain', 'AutoMTLS'])('a plugin served over %s', (transport) => {
  const options = async (more: Partial<TestHostOptions> = {}): Promise<Partial<TestHostOptions>> =>
    transport === 'plain' ? more : { ...more, identity: await createHostIdentity() };

  it('is healthy, tells its manifest and answers', async () => {
    const { manifest, answer, health } = await (async () => {
      const served = await serve(
        {
          ...base,
          policyVersion: 'p1',
          onAgentInput: (input) => input.block('no'),
          portFailurePolicy: { 'agent/request': 'closed' },
        },
        await options(),
      );
      return {
        health: await served.health(),
        manifest: await served.bootstrap(),
        answer: await served.ask('agent/input', { content: 'a' }, { turnId: 't1', context: Buffer.from('{"a":1}') }),
      };
    })();
    expect(health).toBe(1);
    expect(manifest).toMatchObject({
      name: 'tested',
      version: '1.2.3',
      sdkVersion: '0.1.0',
      protocolMajor: 1,
      policyVersion: 'p1',
      subscriptions: ['agent/input'],
      portFailurePolicy: { 'agent/request': 'closed' },
    });
    expect(answer).toMatchObject({
      type: 'input/blocked',
      reason: 'no',
      sessionId: 's1',
      runId: 'r1',
      turnId: 't1',
      chainId: 'chain',
    });
    expect([answer.payload.length, answer.context.length]).toEqual([0, 0]);
  });

  it('calls its host back, announced before or after Bootstrap', async () => {
    for (const announce of ['before', 'after'] as const) {
      const notices: plugin.Notice[] = [];
      const tools: plugin.Method[] = [];
      const services: Partial<plugin.HostServer> = {
        appendNotice: (call, callback) => {
          notices.push(call.request);
          callback(null, {});
        },
        registerMethod: (call, callback) => {
          tools.push(call.request);
          callback(null, {});
        },
      };
      const tool = defineTool({
        name: 'dice',
        description: 'Rolls.',
        parameters: z.object({ sides: z.number().int().min(2) }),
        effect: 'pure',
        timeoutMs: 500,
        execute: ({ sides }) => sides,
      });
      const served = await serve(
        { ...base, tools: [tool], onAgentInput: (input) => input.host.appendNotice(input, 'seen') as Promise<void> },
        await options({ services, announce }),
      );
      await served.bootstrap();
      await served.ask('agent/input', { content: 'a' });
      await served.ask('agent/input', { content: 'b' });
      expect(tools).toMatchObject([
        { name: 'dice', prompt: 'Rolls.', effectClass: 'pure', timeoutMs: 500, requiresApproval: false },
      ]);
      expect(JSON.parse(text(tools[0]?.parametersSchema ?? Buffer.alloc(0)))).toMatchObject({
        type: 'object',
        properties: { sides: { type: 'integer', minimum: 2 } },
        required: ['sides'],
      });
      expect(notices).toEqual(Array(2).fill({ sessionId: 's1', runId: 'r1', text: 'seen' }));
      served.close();
      listening?.close();
    }
  });
});

describe('a host without the right certificate', () => {
  it('is not served', async () => {
    const served = await serve(base, { identity: await createHostIdentity() });
    expect(await served.health()).toBe(1);
    const stranger = TestHost.connect(listening?.handshake ?? '', {
      socketDirectory: directory,
      identity: await createHostIdentity(),
    });
    await expect(stranger.health()).rejects.toMatchObject({ code: status.UNAVAILABLE });
    stranger.close();
  });
});

describe('questions', () => {
  it.each(['cancelled', 'timed out'])('that are %s abort the signal of the handler', async (how) => {
    const aborted = deferred<void>();
    const asked = deferred<void>();
    const served = await serve({
      ...base,
      onAgentInput: (input) =>
        new Promise((resolve) => {
          asked.resolve();
          input.signal.addEventListener('abort', () => {
            aborted.resolve();
            resolve(undefined);
          });
        }),
    });
    await served.bootstrap();
    const controller = new AbortController();
    const options = how === 'cancelled' ? { signal: controller.signal } : { timeoutMs: 1_000 };
    const answer = served.ask('agent/input', { content: 'a' }, {}, options);
    await asked.promise;
    if (how === 'cancelled') controller.abort();
    await expect(answer).rejects.toMatchObject({
      code: how === 'cancelled' ? status.CANCELLED : status.DEADLINE_EXCEEDED,
    });
    await aborted.promise;
  });

  it('whose handler throws fail with its message', async () => {
    const served = await serve({
      ...base,
      onAgentInput: () => {
        throw new Error('no connection – ü');
      },
    });
    await served.bootstrap();
    await expect(served.ask('agent/input', { content: 'a' })).rejects.toMatchObject({
      code: status.UNKNOWN,
      details: 'no connection – ü',
    });
  });

  it('without a handler are answered as unchanged', async () => {
    const served = await serve(base);
    await served.bootstrap();
    for (const type of ['agent/request', 'run.started']) {
      expect(await served.ask(type, {})).toMatchObject({ type, payload: Buffer.alloc(0) });
    }
  });

  it('may be larger than gRPC allows by default', async () => {
    const served = await serve({ ...base, onAgentInput: (input) => input.reply({ content: `${input.content}!` }) });
    await served.bootstrap();
    const content = 'x'.repeat(6 * 1024 * 1024);
    expect((await served.ask('agent/input', { content })).payload.length).toBe(
      content.length + '{"content":"!"}'.length,
    );
  });
});

describe('tools', () => {
  const tools = [
    defineTool({
      name: 'sum',
      description: 'Adds.',
      parameters: z.object({ a: z.number(), b: z.number().default(1) }),
      execute: ({ a, b }, { callId, idempotencyKey, attempt }) => ({ sum: a + b, callId, idempotencyKey, attempt }),
    }),
    defineTool({ name: 'echo', description: 'Repeats.', parameters: { type: 'object' }, execute: (args) => args }),
    defineTool({
      name: 'nothing',
      description: 'Does nothing.',
      parameters: { type: 'object' },
      execute: () => undefined,
    }),
    defineTool({
      name: 'fail',
      description: 'Fails.',
      parameters: { type: 'object' },
      execute: () => Promise.reject(new Error('no disk')),
    }),
  ];
  const services: Partial<plugin.HostServer> = { registerMethod: (_, callback) => callback(null, {}) };

  it('answer, fail and check their arguments', async () => {
    const served = await serve({ ...base, tools }, { services });
    await served.bootstrap();
    const results = [
      await served.execute('sum', { a: 2 }, { callId: 'c7', attempt: 3 }),
      await served.execute('sum', { a: 'two' }),
      await served.execute('echo', { deep: ['ü', null] }),
      await served.execute('nothing', {}),
      await served.execute('fail', {}),
    ];
    expect(results.map(({ success, output, error }) => [success, text(output), error])).toEqual([
      [true, '{"sum":3,"callId":"c7","idempotencyKey":"c7","attempt":3}', ''],
      [false, '', expect.stringContaining('invalid arguments: a: ')],
      [true, '{"deep":["ü",null]}', ''],
      [true, '', ''],
      [false, '', 'no disk'],
    ]);
    await expect(served.execute('absent', {})).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it('that the host refuses refuse the start', async () => {
    const refusing: Partial<plugin.HostServer> = {
      registerMethod: (_, callback) => callback({ code: status.ALREADY_EXISTS, details: 'the name "sum" is taken' }),
    };
    const served = await serve({ ...base, tools }, { services: refusing });
    await expect(served.bootstrap()).rejects.toMatchObject({ details: 'RegisterMethod: the name "sum" is taken' });
  });
});

describe('the host', () => {
  const calling = async (
    services: Partial<plugin.HostServer>,
    act: (input: Parameters<NonNullable<PluginDefinition['onAgentInput']>>[0]) => Promise<unknown>,
  ) => {
    let result: unknown;
    const served = await serve(
      {
        ...base,
        onAgentInput: async (input) => {
          result = await act(input).catch((error: unknown) => error);
        },
      },
      { services },
    );
    await served.bootstrap();
    await served.ask('agent/input', { content: 'a' });
    return result;
  };

  it('finds memory, or not', async () => {
    const memoryGet: plugin.HostServer['memoryGet'] = (call, callback) => {
      const { name, scope, sessionId } = call.request;
      if (name === 'known') callback(null, { text: `${sessionId} ${scope}` });
      else callback({ code: status.NOT_FOUND, details: 'nothing there' });
    };
    const found = await calling({ memoryGet }, ({ host: its, ...input }) =>
      Promise.all([its.memory.get(input, 'known', 'user'), its.memory.get(input, 'unknown')]),
    );
    expect(found).toEqual(['s1 user', undefined]);
  });

  it('that does not offer a method is told apart', async () => {
    const error = await calling({}, (input) => input.host.complete(input, { prompt: 'p', text: 't' }));
    expect(error).toBeInstanceOf(HostCallError);
    expect(error).toMatchObject({
      method: 'Complete',
      code: 'UNIMPLEMENTED',
      message: 'Complete: this host does not offer it',
    });
  });

  it('refuses with its own words', async () => {
    const appendNotice: plugin.HostServer['appendNotice'] = (_, callback) =>
      callback({ code: status.PERMISSION_DENIED, details: 'no call is open' });
    const error = await calling({ appendNotice }, (input) => input.host.appendNotice(input, 'x'));
    expect(error).toMatchObject({ code: 'PERMISSION_DENIED', message: 'AppendNotice: no call is open' });
  });

  it('that never announces its service fails the call within 5 s', async () => {
    const served = await serve(
      { ...base, bootstrap: (its) => its.emit({ sessionId: 's' }, 'a.b') },
      { announce: 'never' },
    );
    await expect(served.bootstrap()).rejects.toMatchObject({
      details: expect.stringContaining('announced no service 1 on its broker within 5000 ms'),
    });
  }, 10_000);

  it('a call back ends with the question it belongs to', async () => {
    const cancelled = deferred<void>();
    const asked = deferred<void>();
    const outcome = deferred<unknown>();
    const served = await serve(
      {
        ...base,
        onAgentInput: async (input) => {
          outcome.resolve(await input.host.complete(input, { prompt: '', text: '' }).catch((error: unknown) => error));
        },
      },
      {
        services: {
          complete: (call) => {
            asked.resolve();
            call.on('cancelled', () => cancelled.resolve());
          },
        },
      },
    );
    await served.bootstrap();
    const controller = new AbortController();
    const answer = served.ask('agent/input', { content: 'a' }, {}, { signal: controller.signal });
    await asked.promise;
    controller.abort();
    await expect(answer).rejects.toMatchObject({ code: status.CANCELLED });
    await cancelled.promise;
    expect(await outcome.promise).toMatchObject({ code: 'CANCELLED' });
  });
});

describe('output', () => {
  it('printed before and after the host reads arrives in order', async () => {
    printed.push('stdout', Buffer.from('early '));
    const served = await serve(base);
    await served.bootstrap();
    printed.push('stdout', Buffer.from('ü'.repeat(2_000)));
    await eventually(() => expect(served.printed).toBe(`early ${'ü'.repeat(2_000)}`));
  });

  it('nobody reads is kept to its last 64 KiB', async () => {
    printed.push('stdout', Buffer.from(`first${'x'.repeat(100_000)}last`));
    const served = await serve(base);
    await eventually(() => expect(served.printed).toMatch(/^x+last$/));
    expect(served.printed.length).toBeLessThanOrEqual(64 * 1024);
  });
});

describe('the end', () => {
  it('is told to the host before it happens', async () => {
    const served = await serve(base);
    await served.bootstrap();
    await served.shutdown();
    expect(ended).toContain('shutdown');
  });

  it('of the host is noticed by its broker stream', async () => {
    const served = await serve(base);
    await served.bootstrap();
    served.close();
    await eventually(() => expect(ended).toEqual(['lost']));
  });
});

describe('the handshake', () => {
  const line = (env: Record<string, string>) => handshakeLine(readHostEnvironment(env), '/tmp/s', 'CERT');

  it.each([
    [{ PLUGIN_PROTOCOL_VERSIONS: '2,1' }, '1|1|unix|/tmp/s|grpc|CERT'],
    [{ PLUGIN_PROTOCOL_VERSIONS: '7,x' }, '1|1|unix|/tmp/s|grpc|CERT'],
    [{ PLUGIN_MULTIPLEX_GRPC: '' }, '1|1|unix|/tmp/s|grpc|CERT'],
    [{ PLUGIN_MULTIPLEX_GRPC: 'false' }, '1|1|unix|/tmp/s|grpc|CERT|false'],
    [{ PLUGIN_MULTIPLEX_GRPC: 'true' }, '1|1|unix|/tmp/s|grpc|CERT|false'],
  ])('%j', (env, expected) => expect(line(env as Record<string, string>)).toBe(expected));

  it('is refused where the socket path would be cut', async () => {
    const environment = readHostEnvironment({ PLUGIN_UNIX_SOCKET_DIR: `/tmp/${'x'.repeat(100)}` });
    const options = {
      environment,
      printed,
      services: () => ({}) as plugin.PluginServer,
      onShutdown: () => undefined,
      onHostLost: () => undefined,
    };
    await expect(listen(options)).rejects.toThrow(/bytes, at most 10[37] work/);
  });
});
