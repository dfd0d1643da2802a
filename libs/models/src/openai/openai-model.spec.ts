import type { Message, ModelChunk, ModelGates, ModelRequest } from '@codedock/domain';
import {
  callsTools,
  failsWith,
  hangs,
  type RecordingProvider,
  recordingProvider,
  resets,
  says,
} from '@codedock/testkit';
import { type OpenAiModel, type OpenAiOptions, openAiModel } from './openai-model.js';

const KEY = 'sk-test-secret';
let provider: RecordingProvider;
let model: OpenAiModel;

beforeEach(async () => {
  provider = await recordingProvider();
  model = open();
});
afterEach(async () => {
  await provider.close();
  await model.close();
});

function open(options: Partial<OpenAiOptions> = {}): OpenAiModel {
  return openAiModel({ apiKey: KEY, baseUrl: provider.baseUrl, ...options });
}

function request(overrides: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: { provider: 'openai', name: 'test-model' },
    systemPrompt: 'Be brief.',
    messages: [message({ role: 'user', content: { text: 'hello' } })],
    tools: [],
    retry: { maxAttempts: 3, baseDelayMs: 1, maxDelayMs: 2 },
    runId: 'run',
    sessionId: 'session',
    ...overrides,
  };
}

function message(parts: Partial<Message>): Message {
  return {
    id: 'm',
    sessionId: 'session',
    role: 'user',
    content: { text: '' },
    eventSeq: 0,
    createdAt: '2025-01-01T00:00:00Z',
    ...parts,
  };
}

async function collect(
  gates: ModelGates = {},
  asked = request(),
  signal = new AbortController().signal,
): Promise<ModelChunk[]> {
  const chunks: ModelChunk[] = [];
  for await (const chunk of model.stream(asked, gates, signal)) chunks.push(chunk);
  return chunks;
}

describe('a reply', () => {
  it('streams text and reports usage', async () => {
    provider.script(says(['Hel', 'lo']));
    expect(await collect()).toEqual([
      { kind: 'delta', text: 'Hel' },
      { kind: 'delta', text: 'lo' },
      {
        kind: 'completed',
        reply: { text: 'Hello', toolCalls: [], usage: { inputTokens: 10, outputTokens: 5 }, finishReason: 'stop' },
      },
    ]);
    expect(provider.requests[0]?.json()).toMatchObject({
      model: 'test-model',
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(provider.requests[0]?.header('authorization')).toBe(`Bearer ${KEY}`);
  });

  it('puts tool calls together and keeps text that is no JSON', async () => {
    provider.script(
      callsTools([
        { id: 'a', name: 'ping', arguments: { text: 'x' } },
        { id: 'b', name: 'ping', arguments: '{broken' },
        { id: 'c', name: 'ping', arguments: '' },
      ]),
    );
    expect((await collect()).at(-1)).toMatchObject({
      reply: {
        toolCalls: [
          { providerCallId: 'a', name: 'ping', arguments: { text: 'x' } },
          { providerCallId: 'b', name: 'ping', arguments: undefined, rawArguments: '{broken' },
          { providerCallId: 'c', name: 'ping', arguments: {} },
        ],
        finishReason: 'tool_calls',
      },
    });
  });

  it('maps history: system first, hidden after it, results under the provider’s own ids', async () => {
    await collect(
      {},
      request({
        messages: [
          message({ role: 'developer', content: { text: 'hidden' } }),
          message({ role: 'user', content: { text: 'go' } }),
          message({
            role: 'assistant',
            content: { text: '' },
            toolCalls: [{ id: 'ours', name: 'ping', arguments: { a: 1 }, providerCallId: 'theirs' }],
          }),
          message({ role: 'tool', content: { callId: 'ours', output: { pong: true } } }),
        ],
        tools: [
          {
            name: 'ping',
            description: 'Pings.',
            parameters: { type: 'object' },
            requiresApproval: false,
            effect: 'pure',
            timeoutMs: 1,
            schemaDigest: '',
          },
        ],
        model: { provider: 'openai', name: 'm', maxOutputTokens: 9, options: { temperature: 0, stream: false } },
      }),
    );
    expect(provider.requests[0]?.json()).toEqual({
      temperature: 0,
      model: 'm',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'system', content: 'hidden' },
        { role: 'user', content: 'go' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'theirs', type: 'function', function: { name: 'ping', arguments: '{"a":1}' } }],
        },
        { role: 'tool', tool_call_id: 'theirs', content: '{"pong":true}' },
      ],
      tools: [{ type: 'function', function: { name: 'ping', description: 'Pings.', parameters: { type: 'object' } } }],
      max_completion_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
    });
  });
});

describe('the provider gates', () => {
  it('see no credentials, and the answered body goes out byte for byte', async () => {
    const seen: string[] = [];
    // Numbers and spacing that a re-serialisation would change.
    const body = '{"model": "m",  "big": 12345678901234567890, "one": 1.0, "stream":true, "é":"\\u00e9"}';
    await collect({
      headers: async (headers) => {
        seen.push(...Object.keys(headers));
        return { ...headers, 'x-from-headers': 'a', authorization: 'Bearer evil' };
      },
      request: async ({ headers, body: original }) => {
        seen.push(...Object.keys(headers));
        expect(JSON.parse(original)).toMatchObject({ model: 'test-model' });
        return {
          headers: { ...headers, 'x-from-request': 'b', host: 'evil', 'content-length': '1', 'x-split': 'a\r\nb: c' },
          body,
        };
      },
    });
    const [sent] = provider.requests;
    expect(sent?.body.toString('utf8')).toBe(body);
    expect(sent?.header('content-length')).toBe(String(Buffer.byteLength(body)));
    expect(sent?.header('x-from-headers')).toBe('a');
    expect(sent?.header('x-from-request')).toBe('b');
    expect(sent?.header('x-split')).toBeUndefined();
    expect(sent?.header('host')).toBe(`127.0.0.1:${provider.port}`);
    expect(sent?.header('authorization')).toBe(`Bearer ${KEY}`);
    expect(seen).not.toContain('authorization');
    expect(seen).not.toContain('host');
  });

  it('send the original bytes when nothing is changed', async () => {
    await collect();
    let original = '';
    await collect({
      request: async (asked) => {
        original = asked.body;
        return asked;
      },
    });
    expect(provider.requests[1]?.body.toString()).toBe(original);
    expect(provider.requests[1]?.body.equals(provider.requests[0]?.body as Buffer)).toBe(true);
  });

  it('are asked again at every attempt, the response gate for errors too and not for broken connections', async () => {
    provider.script(failsWith(500), resets(), says('ok'));
    const asked: (string | number)[] = [];
    await collect({
      headers: async (headers) => {
        asked.push('headers');
        return headers;
      },
      request: async (sent) => {
        asked.push('request');
        return sent;
      },
      response: async ({ status }) => {
        asked.push(status);
      },
    });
    expect(asked).toEqual(['headers', 'request', 500, 'headers', 'request', 'headers', 'request', 200]);
  });

  it.each(['headers', 'request'] as const)('end the call without retries when %s throws', async (gate) => {
    const thrown = new Error('policy');
    await expect(collect({ [gate]: () => Promise.reject(thrown) })).rejects.toBe(thrown);
    expect(provider.requests).toHaveLength(0);
  });

  it('fail one attempt when the response gate throws', async () => {
    let calls = 0;
    const chunks = await collect({
      response: async () => {
        calls += 1;
        if (calls === 1) throw new Error('not this one');
      },
    });
    expect(calls).toBe(2);
    expect(chunks.at(-1)?.kind).toBe('completed');
  });
});

describe('failures', () => {
  it.each([408, 409, 429, 500, 503])('retries %d', async (status) => {
    provider.script(failsWith(status));
    expect((await collect()).at(-1)?.kind).toBe('completed');
    expect(provider.requests).toHaveLength(2);
  });

  it.each([
    [400, 'provider_rejected'],
    [401, 'provider_rejected'],
    [404, 'provider_rejected'],
  ])('does not retry %d', async (status, code) => {
    provider.script(failsWith(status));
    await expect(collect()).rejects.toMatchObject({ code });
    expect(provider.requests).toHaveLength(1);
  });

  it.each([
    [429, 'provider_throttled'],
    [502, 'provider_unavailable'],
  ])('gives up on %d after the policy’s attempts', async (status, code) => {
    provider.otherwise(failsWith(status));
    await expect(collect()).rejects.toMatchObject({ code });
    expect(provider.requests).toHaveLength(3);
  });

  it('honours Retry-After', async () => {
    provider.script(failsWith(429, { 'retry-after-ms': '120' }));
    await collect();
    const [first, second] = provider.requests;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(115);
  });

  it('gives up when the provider asks for a wait beyond a minute', async () => {
    provider.script(failsWith(429, { 'retry-after': '3600' }));
    await expect(collect()).rejects.toMatchObject({ code: 'provider_throttled', retryAfterMs: 3_600_000 });
    expect(provider.requests).toHaveLength(1);
  });

  it.each(['reset', 'cut'] as const)('says that deltas count no more when the stream is %s', async (by) => {
    provider.script(says(['lost', 'x'], { interruption: { afterPieces: 1, by } }), says('kept'));
    expect((await collect()).map((chunk) => (chunk.kind === 'delta' ? chunk.text : chunk.kind))).toEqual([
      'lost',
      'restarted',
      'kept',
      'completed',
    ]);
  });

  it('names a silent provider', async () => {
    await model.close();
    model = open({ idleTimeoutMs: 50 });
    provider.otherwise(says(['a', 'b'], { interruption: { afterPieces: 1, by: 'hang' } }));
    await expect(
      collect({}, request({ retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 } })),
    ).rejects.toMatchObject({
      code: 'provider_timeout',
    });
  });

  it('does not count the time of a gate as the provider’s silence', async () => {
    await model.close();
    model = open({ idleTimeoutMs: 1_000 });
    const slow = async <T>(value: T): Promise<T> => new Promise((resolve) => setTimeout(() => resolve(value), 1_200));
    expect((await collect({ request: slow })).at(-1)?.kind).toBe('completed');
    expect(provider.requests).toHaveLength(1);
  });

  it('ends at once when the call is aborted', async () => {
    provider.script(hangs());
    const abort = new AbortController();
    const pending = collect({}, request(), abort.signal);
    const received = await provider.waitForRequest(0);
    const reason = new Error('cancelled');
    abort.abort(reason);
    await expect(pending).rejects.toBe(reason);
    expect(await received.outcome).toBe('aborted');
  });
});

describe('egress', () => {
  const elsewhere = (baseUrl: string) => request({ model: { provider: 'openai', name: 'm', options: { baseUrl } } });

  it('refuses a profile’s base URL of an unknown origin', async () => {
    await expect(collect({}, elsewhere('https://evil.example/v1'))).rejects.toMatchObject({
      code: 'provider_rejected',
    });
  });

  it('refuses loopback unless it is configured, by name and by address', async () => {
    const local = provider.baseUrl;
    for (const host of ['localtest.invalid', '10.0.0.1', '169.254.169.254']) {
      await model.close();
      model = open({ baseUrl: `http://${host}:${provider.port}/v1` });
      const once = request({ retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 } });
      await expect(collect({}, once)).rejects.toMatchObject({
        code: host.endsWith('invalid') ? 'provider_unavailable' : 'provider_rejected',
      });
    }
    expect(local).toContain('127.0.0.1');
    expect(provider.requests).toHaveLength(0);
  });

  it('follows no redirect', async () => {
    provider.script({
      kind: 'status',
      status: 307,
      body: '',
      headers: { location: 'http://evil.example/v1/chat/completions' },
    });
    await expect(collect()).rejects.toMatchObject({ code: 'provider_rejected' });
    expect(provider.requests).toHaveLength(1);
  });
});
