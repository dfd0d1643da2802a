import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { eventuallyDefined } from './eventually.js';
import { type ProviderReply, says } from './provider-reply.js';

/** One request, byte for byte as it came over the connection. */
export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  /** Request line and headers as received, up to and including the empty line. */
  readonly head: Buffer;
  /** Header names and values in the order and spelling received. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The body without transfer coding. */
  readonly body: Buffer;
  /** `performance.now()` at arrival. */
  readonly at: number;
  /** The value of a header by name in any case; several are joined with `, `. */
  header(name: string): string | undefined;
  /** The body parsed as JSON. */
  json(): unknown;
  /** `answered` when the answer was sent whole, `aborted` when the connection closed before. */
  readonly outcome: Promise<'answered' | 'aborted'>;
}

/** A reply, or how to make one from the request. */
export type ScriptedReply = ProviderReply | ((request: RecordedRequest) => ProviderReply);

/** An OpenAI-compatible server for tests. */
export interface RecordingProvider {
  /** For `OPENAI_BASE_URL`; ends in `/v1`. */
  readonly baseUrl: string;
  readonly port: number;
  readonly requests: readonly RecordedRequest[];
  /** Adds replies; each answers one request, in order. */
  script(...replies: readonly ScriptedReply[]): void;
  /** What answers when the script is used up. At first a message "ok". */
  otherwise(reply: ScriptedReply): void;
  /** The request with this index (0 = first), as soon as it has arrived. Default 10,000 ms. */
  waitForRequest(index: number, timeoutMs?: number): Promise<RecordedRequest>;
  /** Closes every connection and the server. */
  close(): Promise<void>;
}

/**
 * Starts an HTTP server on loopback that speaks streaming and plain chat completions (`POST /v1/chat/completions`),
 * answers as scripted and records every request.
 */
export async function recordingProvider(): Promise<RecordingProvider> {
  const requests: RecordedRequest[] = [];
  const script: ScriptedReply[] = [];
  let fallback: ScriptedReply = says('ok');
  const received = new WeakMap<Socket, Buffer[]>();
  const sockets = new Set<Socket>();

  const server = createServer((incoming, response) => {
    void record(incoming, response, takeReceived(received, incoming.socket)).then(
      async (recorded) => {
        requests.push(recorded);
        const scripted = script.shift() ?? fallback;
        const reply = typeof scripted === 'function' ? scripted(recorded) : scripted;
        await answer(reply, recorded, response);
      },
      () => undefined,
    );
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    received.set(socket, []);
    socket.on('data', (chunk: Buffer) => received.get(socket)?.push(chunk));
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port: 0 }, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    port,
    requests,
    script: (...replies) => void script.push(...replies),
    otherwise: (reply) => {
      fallback = reply;
    },
    waitForRequest: (index, timeoutMs = 30_000) =>
      eventuallyDefined(() => requests[index], { timeoutMs, what: `request ${index} to the provider` }),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) {
          socket.destroy();
        }
      }),
  };
}

/** Gives the bytes of one request, once it has been read whole; clients do not pipeline. */
function takeReceived(received: WeakMap<Socket, Buffer[]>, socket: Socket): () => Buffer {
  return () => {
    const bytes = Buffer.concat(received.get(socket) ?? []);
    received.set(socket, []);
    return bytes;
  };
}

async function record(
  incoming: IncomingMessage,
  response: ServerResponse,
  receivedBytes: () => Buffer,
): Promise<RecordedRequest> {
  const at = performance.now();
  const outcome = new Promise<'answered' | 'aborted'>((resolve) => {
    response.once('close', () => resolve(response.writableFinished ? 'answered' : 'aborted'));
  });
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) {
    chunks.push(chunk as Buffer);
  }
  const body = Buffer.concat(chunks);
  const bytes = receivedBytes();
  const head = bytes.subarray(0, bytes.indexOf('\r\n\r\n') + 4);
  const headers = pairs(incoming.rawHeaders);
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    head,
    headers,
    body,
    at,
    header: (name) => {
      const values = headers.filter(([each]) => each.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
      return values.length > 0 ? values.join(', ') : undefined;
    },
    json: () => JSON.parse(body.toString('utf8')) as unknown,
    outcome,
  };
}

function pairs(rawHeaders: readonly string[]): [string, string][] {
  const result: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    result.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '']);
  }
  return result;
}

async function answer(reply: ProviderReply, request: RecordedRequest, response: ServerResponse): Promise<void> {
  if (!request.path.split('?')[0]?.endsWith('/chat/completions')) {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: `no ${request.path}` } }));
    return;
  }
  switch (reply.kind) {
    case 'hang':
      return;
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'status':
      response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
      response.end(reply.body);
      return;
    case 'message':
      await answerMessage(reply, request, response);
  }
}

type MessageReply = Extract<ProviderReply, { kind: 'message' }>;

interface CompletionRequest {
  readonly model?: string;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

async function answerMessage(reply: MessageReply, request: RecordedRequest, response: ServerResponse): Promise<void> {
  const asked = request.json() as CompletionRequest;
  const finish = reply.toolCalls.length > 0 ? 'tool_calls' : 'stop';
  const common = { id: 'chatcmpl-scripted', created: 0, model: asked.model ?? 'scripted' };
  const usage = {
    prompt_tokens: reply.usage.promptTokens,
    completion_tokens: reply.usage.completionTokens,
    total_tokens: reply.usage.promptTokens + reply.usage.completionTokens,
  };
  const toolCalls = reply.toolCalls.map(({ id, name, arguments: text }) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  }));
  if (asked.stream !== true) {
    const content = reply.pieces.length > 0 ? reply.pieces.join('') : null;
    const message = { role: 'assistant', content, ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}) };
    response.writeHead(200, { 'content-type': 'application/json', ...reply.headers });
    response.end(
      JSON.stringify({
        ...common,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: finish }],
        usage,
      }),
    );
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', ...reply.headers });
  const send = (delta: object, finishReason: string | null = null) => {
    const choices = [{ index: 0, delta, finish_reason: finishReason }];
    response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices })}\n\n`);
  };
  send({ role: 'assistant', content: '' });
  if (await interrupted(reply, 0, response)) {
    return;
  }
  for (const [index, piece] of reply.pieces.entries()) {
    send({ content: piece });
    if (await interrupted(reply, index + 1, response)) {
      return;
    }
    if (index === 0) {
      await reply.holdUntil;
    }
  }
  for (const [index, call] of toolCalls.entries()) {
    // Split as real providers do: name first, then the arguments in two fragments.
    const text = call.function.arguments;
    const middle = Math.ceil(text.length / 2);
    send({ tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: '' } }] });
    for (const fragment of [text.slice(0, middle), text.slice(middle)]) {
      send({ tool_calls: [{ index, function: { arguments: fragment } }] });
    }
  }
  send({}, finish);
  if (asked.stream_options?.include_usage === true) {
    response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices: [], usage })}\n\n`);
  }
  response.end('data: [DONE]\n\n');
}

/** Acts on an interruption that is due after `sent` pieces; true when the answer stops here. */
async function interrupted(reply: MessageReply, sent: number, response: ServerResponse): Promise<boolean> {
  const { interruption } = reply;
  if (interruption?.afterPieces !== sent) {
    return false;
  }
  // What was written so far must reach the client before the connection breaks.
  await new Promise<void>((resolve) => response.write('', () => resolve()));
  if (interruption.by === 'reset') {
    response.socket?.resetAndDestroy();
  } else if (interruption.by === 'cut') {
    response.end();
  }
  return true;
}
