import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { finished } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { type ApiClient, failureOf } from '../api-client.js';

/** What is recorded, and until when. */
export interface RecordOptions {
  readonly client: ApiClient;
  readonly plugin: string;
  readonly file: string;
  /** Add to a file that exists. */
  readonly append: boolean;
  /** Questions after which to end. */
  readonly limit?: number;
  /** Ends the recording; what came until then is kept. */
  readonly signal: AbortSignal;
  /** Called once, when questions are being recorded. */
  onBegun(): void;
}

/**
 * Writes what a plugin is asked in a running installation, with its answers, into a file that only its owner can read:
 * one JSON object a line. Answers how many questions there were, and what ended it.
 */
export async function recordPlugin(options: RecordOptions): Promise<{ questions: number; ended: string }> {
  const { client, plugin, signal, limit = Number.POSITIVE_INFINITY } = options;
  const stop = new AbortController();
  const response = await fetch(`${client.url}/v1/plugins/${encodeURIComponent(plugin)}/recording`, {
    headers: { ...client.headers, accept: 'application/x-ndjson' },
    signal: AbortSignal.any([signal, stop.signal]),
  });
  if (!response.ok || response.body === null) throw await failureOf(response);
  const file = await openFile(options);
  options.onBegun();
  let questions = 0;
  let ended = 'the gateway ended it';
  try {
    for await (const line of linesOf(response.body as ReadableStream<Uint8Array>)) {
      if (line === '') continue;
      file.write(`${line}\n`);
      questions += 1;
      if (questions < limit) continue;
      ended = 'the limit is reached';
      break;
    }
  } catch (error) {
    if (!signal.aborted) ended = `the connection was lost (${(error as Error).message})`;
  } finally {
    stop.abort();
    file.end();
    await finished(file);
  }
  return { questions, ended: signal.aborted ? 'it was stopped' : ended };
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

async function openFile({ file, append }: RecordOptions): Promise<WriteStream> {
  const path = resolve(file);
  await mkdir(dirname(path), { recursive: true });
  const stream = createWriteStream(path, { flags: append ? 'a' : 'wx', mode: 0o600 });
  await new Promise<void>((opened, failed) => {
    stream.once('open', () => opened());
    stream.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EEXIST' ? 'exists already; give --append, or another file' : error.message;
      failed(new Error(`${path} ${why}.`));
    });
  });
  return stream;
}
