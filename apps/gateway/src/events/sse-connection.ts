import type { ServerResponse } from 'node:http';
import { HEARTBEAT_FRAME, OPENING_FRAME } from './sse-frame.js';

/** Bytes in flight above which a replay waits for the client. */
const REPLAY_WINDOW_BYTES = 64 * 1024;

export interface SseLimits {
  /** Bytes a client may leave unread before it is dropped. */
  readonly bufferBytes: number;
  /** Milliseconds between two heartbeats. */
  readonly heartbeatMs: number;
  /** Milliseconds in which a client must have taken what was written, once that is more than a little. */
  readonly stallMs: number;
  /** Milliseconds in which a client must have taken the rest of a stream that has ended. */
  readonly endMs: number;
}

/**
 * One client's `text/event-stream`, written by hand: frameworks give messages without an id ids of their own, which
 * would corrupt `Last-Event-ID`. A client that does not read is dropped, never waited for: it resumes by its last id.
 */
export class SseConnection {
  private readonly heartbeat: NodeJS.Timeout | undefined;
  private readonly closed: Promise<void>;
  private stalling: NodeJS.Timeout | undefined;
  private ending: NodeJS.Timeout | undefined;
  private open = true;

  constructor(
    private readonly response: ServerResponse,
    private readonly limits: SseLimits,
    headers: Readonly<Record<string, string | string[] | number>>,
    /** Asked with every heartbeat; false ends the stream (the key was revoked). */
    private readonly mayGoOn: () => Promise<boolean>,
  ) {
    this.closed = new Promise((resolve) => {
      const close = () => {
        this.open = false;
        clearInterval(this.heartbeat);
        clearTimeout(this.ending);
        clearTimeout(this.stalling);
        resolve();
      };
      // A client can leave before its stream begins: nothing is emitted again then.
      if (response.destroyed || response.closed) close();
      else response.once('close', close);
    });
    if (!this.open) return;
    this.heartbeat = setInterval(() => void this.beat(), limits.heartbeatMs);
    this.heartbeat.unref();
    response.on('drain', () => {
      clearTimeout(this.stalling);
      this.stalling = undefined;
    });
    response.on('error', () => response.destroy());
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      connection: 'keep-alive',
    });
    this.write(OPENING_FRAME);
  }

  /** Writes one frame, or drops the client when it has left too much unread. */
  write(frame: string): void {
    if (!this.open) return;
    if (this.response.writableLength > this.limits.bufferBytes) {
      this.drop();
      return;
    }
    if (!this.response.write(frame)) this.stalling ??= setTimeout(() => this.drop(), this.limits.stallMs).unref();
  }

  /** Resolves when the client has read enough for more, or is gone. */
  async drained(): Promise<void> {
    if (!this.open || this.response.writableLength <= REPLAY_WINDOW_BYTES) return;
    await Promise.race([new Promise<void>((resolve) => this.response.once('drain', resolve)), this.closed]);
  }

  /** Ends the stream in good order. A client that does not take the rest of it in time is dropped. */
  end(): void {
    if (!this.open) return;
    this.open = false;
    clearInterval(this.heartbeat);
    this.response.end();
    this.ending = setTimeout(() => this.response.destroy(), this.limits.endMs).unref();
  }

  /** Cuts the connection: the client sees an error and resumes. */
  drop(): void {
    this.open = false;
    clearInterval(this.heartbeat);
    this.response.destroy();
  }

  /** Resolves when the connection is gone, whoever ended it. */
  whenClosed(): Promise<void> {
    return this.closed;
  }

  private async beat(): Promise<void> {
    if (!this.open) return;
    if (await this.mayGoOn()) this.write(HEARTBEAT_FRAME);
    else this.end();
  }
}
