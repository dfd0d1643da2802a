import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { type ReceivedSpan, readSpans } from './received-span.js';

/** Bytes of one request at most, unpacked. */
const LARGEST_BODY = 16 * 1024 * 1024;
const MOST_SPANS = 50_000;
const unzip = promisify(gunzip);

export interface TraceReceiverOptions {
  /** Default: a free one. */
  readonly port?: number;
  /** Spans kept at most; the oldest go first. Default 50,000. */
  readonly mostSpans?: number;
}

/** A running receiver. */
export interface TraceReceiver {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT, with OTEL_EXPORTER_OTLP_PROTOCOL=http/json. */
  readonly url: string;
  /** What has been received and is still kept, in the order of arrival. */
  spans(): readonly ReceivedSpan[];
  /** Every span of the traces a run is in. */
  spansOfRun(runId: string): ReceivedSpan[];
  close(): Promise<void>;
}

/**
 * Receives traces over OTLP/HTTP in its JSON encoding, on loopback, and keeps the newest in memory. `GET /traces?run=<id>`
 * answers `{"spans": […]}` of every trace a run is in. Metrics and logs are taken and thrown away.
 */
export async function startTraceReceiver(options: TraceReceiverOptions = {}): Promise<TraceReceiver> {
  const mostSpans = options.mostSpans ?? MOST_SPANS;
  let kept: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.statusCode = error instanceof BadRequest ? 400 : 500;
      response.end(error instanceof BadRequest ? error.message : undefined);
    });
  });

  const spansOfRun = (runId: string) => tracesOf(kept, runId);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://receiver');
    if (request.method === 'POST' && pathname === '/v1/traces') {
      kept = [...kept, ...readSpans(await jsonBody(request))].slice(-mostSpans);
      return send(response, {});
    }
    if (request.method === 'POST' && /^\/v1\/(metrics|logs)$/.test(pathname)) {
      for await (const _ of request);
      return send(response, {});
    }
    if (request.method === 'GET' && pathname === '/traces') {
      return send(response, { spans: spansOfRun(searchParams.get('run') ?? '') });
    }
    response.writeHead(404).end();
  };

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => kept,
    spansOfRun,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Every span of the traces that know the run. */
function tracesOf(spans: readonly ReceivedSpan[], runId: string): ReceivedSpan[] {
  const traces = new Set(
    spans.filter(({ attributes }) => attributes['codedock.run.id'] === runId).map((span) => span.traceId),
  );
  return spans.filter(({ traceId }) => traces.has(traceId));
}

class BadRequest extends Error {}

async function jsonBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LARGEST_BODY) throw new BadRequest(`at most ${LARGEST_BODY} bytes are taken at once`);
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  try {
    const plain = request.headers['content-encoding'] === 'gzip' ? await unzip(bytes, LIMIT) : bytes;
    return JSON.parse(plain.toString('utf8'));
  } catch {
    throw new BadRequest('the body is no JSON; send OTLP with OTEL_EXPORTER_OTLP_PROTOCOL=http/json');
  }
}

const LIMIT = { maxOutputLength: LARGEST_BODY };

function send(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
