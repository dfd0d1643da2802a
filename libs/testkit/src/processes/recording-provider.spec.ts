import { connect } from 'node:net';
import { callsTools, failsWith, hangs, resets, says } from './provider-reply.js';
import { type RecordingProvider, recordingProvider } from './recording-provider.js';

let provider: RecordingProvider;
beforeEach(async () => {
  provider = await recordingProvider();
});
afterEach(() => provider.close());

const ask = (body: object, signal?: AbortSignal) =>
  fetch(`${provider.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: 'Bearer sk-test' },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });

const chunksOf = (text: string): { choices: { delta: Record<string, unknown>; finish_reason: string }[] }[] =>
  text
    .split('\n\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)));

test('streams scripted pieces, usage and the closing marker', async () => {
  provider.script(says(['Hel', 'lo'], { usage: { promptTokens: 3, completionTokens: 2 } }));
  const text = await (await ask({ model: 'm', stream: true, stream_options: { include_usage: true } })).text();
  const contents = chunksOf(text).flatMap(({ choices }) => choices.map(({ delta }) => delta['content'] ?? ''));
  expect(contents.join('')).toBe('Hello');
  expect(text).toContain('"total_tokens":5');
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
});

test('sends tool calls in fragments that join to the scripted arguments', async () => {
  provider.script(callsTools([{ id: 'call_1', name: 'ping', arguments: { host: 'a', n: 1 } }]));
  const chunks = chunksOf(await (await ask({ stream: true })).text());
  const calls = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => (delta['tool_calls'] ?? []) as never[]));
  const text = calls.map((call: { function: { arguments: string } }) => call.function.arguments).join('');
  expect(JSON.parse(text)).toEqual({ host: 'a', n: 1 });
  expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls');
});

test('answers without streaming when not asked to stream', async () => {
  provider.script(callsTools([{ id: 'c', name: 'ping', arguments: '{broken' }]));
  const body = (await (await ask({ model: 'm' })).json()) as never;
  expect(body).toMatchObject({
    object: 'chat.completion',
    choices: [{ finish_reason: 'tool_calls', message: { tool_calls: [{ function: { arguments: '{broken' } }] } }],
  });
});

test('records head and body byte for byte, also on a reused connection and in chunks', async () => {
  const socket = connect(provider.port, '127.0.0.1');
  const head = 'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-ODD-case:  a\r\nx-odd-case: b\r\n';
  const first = '{"big":12345678901234567890, "one": 1.0}';
  socket.write(`${head}Content-Length: ${first.length}\r\n\r\n${first}`);
  await provider.waitForRequest(0);
  socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{ \r\n`);
  socket.write('1\r\n}\r\n0\r\n\r\n');
  const second = await provider.waitForRequest(1);
  socket.destroy();

  expect(provider.requests[0]?.head.toString()).toBe(`${head}Content-Length: ${first.length}\r\n\r\n`);
  expect(provider.requests[0]?.body.toString()).toBe(first);
  expect(second.head.toString()).toBe(`${head}Transfer-Encoding: chunked\r\n\r\n`);
  expect(second.body.toString()).toBe('{ }');
  expect(second.header('X-Odd-Case')).toBe('a, b');
});

test('fails, hangs, resets and breaks off as scripted', async () => {
  provider.script(failsWith(429, { 'retry-after': '1' }), resets(), hangs());
  const limited = await ask({});
  expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '1']);
  await expect(ask({})).rejects.toThrow();
  const abort = new AbortController();
  const hanging = ask({}, abort.signal);
  const request = await provider.waitForRequest(2);
  abort.abort();
  await expect(hanging).rejects.toThrow('aborted');
  expect(await request.outcome).toBe('aborted');
});

test('an interrupted stream keeps what was sent before', async () => {
  provider.script(says(['a', 'b'], { interruption: { afterPieces: 1, by: 'reset' } }));
  const response = await ask({ stream: true });
  let text = '';
  await expect(
    (async () => {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        text += Buffer.from(chunk).toString();
      }
    })(),
  ).rejects.toThrow();
  expect(text).toContain('"content":"a"');
  expect(text).not.toContain('"content":"b"');
});

test('a cut stream ends without the closing marker', async () => {
  provider.script(says(['a', 'b'], { interruption: { afterPieces: 1, by: 'cut' } }));
  const text = await (await ask({ stream: true })).text();
  expect(text).toContain('"content":"a"');
  expect(text).not.toContain('[DONE]');
});

test('a held answer goes on when told', async () => {
  let release: () => void = () => undefined;
  const holdUntil = new Promise<void>((resolve) => {
    release = resolve;
  });
  provider.script((request) => says([String((request.json() as { model: string }).model), 'end'], { holdUntil }));
  const response = await ask({ stream: true, model: 'from-request' });
  let text = '';
  let released = false;
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    if (!released && text.includes('"content":"from-request"')) {
      released = true;
      expect(text).not.toContain('"content":"end"');
      release();
    }
  }
  expect(text).toContain('"content":"end"');
});
