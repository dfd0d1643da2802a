import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { createParser } from 'eventsource-parser';
import { eventuallyDefined } from './eventually.js';

/** One frame of an event stream, as it arrived. */
export interface StreamFrame {
  readonly id: string | undefined;
  /** The `event:` field; `message` when the frame has none. */
  readonly event: string;
  readonly data: string;
  /** `performance.now()` at arrival. */
  readonly at: number;
}

/** How to open a stream. */
export interface EventStreamOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as `Last-Event-ID`. */
  readonly lastEventId?: string;
}

/** A client of one event stream that keeps every frame. */
export interface EventStream {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly frames: readonly StreamFrame[];
  /** Comment lines (heartbeats). */
  readonly comments: readonly string[];
  /** The first frame, past ones included, that satisfies `predicate`. Default 10,000 ms. */
  waitFor(predicate: (frame: StreamFrame) => boolean, timeoutMs?: number): Promise<StreamFrame>;
  /** Body text as received, for answers that are no stream. */
  text(): string;
  /** Stops reading without closing, as a slow client does; `resume` goes on. */
  pause(): void;
  resume(): void;
  /** Settles when the stream is over: `ended` by the server, `closed` by this client, `broken` otherwise. */
  readonly over: Promise<'ended' | 'closed' | 'broken'>;
  close(): void;
}

/** Opens an event stream over plain HTTP and returns when its headers have arrived. */
export function openEventStream(url: string, options: EventStreamOptions = {}): Promise<EventStream> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { accept: 'text/event-stream', ...options.headers };
    if (options.lastEventId !== undefined) {
      headers['last-event-id'] = options.lastEventId;
    }
    // No agent: a pooled connection would outlive the test.
    const sent = httpRequest(url, { headers, agent: false }, (response) => {
      const frames: StreamFrame[] = [];
      const comments: string[] = [];
      let text = '';
      let closed = false;
      const parser = createParser({
        onEvent: ({ id, event, data }) => frames.push({ id, event: event ?? 'message', data, at: performance.now() }),
        onComment: (comment) => comments.push(comment),
      });
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        parser.feed(chunk);
      });
      const over = new Promise<'ended' | 'closed' | 'broken'>((settle) => {
        response.once('error', () => settle(closed ? 'closed' : 'broken'));
        response.once('close', () => settle(closed ? 'closed' : response.complete ? 'ended' : 'broken'));
      });
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        frames,
        comments,
        waitFor: (predicate, timeoutMs = 30_000) =>
          eventuallyDefined(() => frames.find(predicate), {
            timeoutMs,
            what: `a frame of ${url}`,
          }).catch((error: Error) => {
            const seen = frames.map(({ id, event }) => `${id ?? '-'}:${event}`).join(' ');
            error.message += ` (status ${response.statusCode}, frames: ${seen || text || 'none'})`;
            throw error;
          }),
        text: () => text,
        pause: () => response.pause(),
        resume: () => response.resume(),
        over,
        close: () => {
          closed = true;
          sent.destroy();
        },
      });
    });
    sent.once('error', reject);
    sent.end();
  });
}
