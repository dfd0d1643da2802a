import { setTimeout as delay } from 'node:timers/promises';
import { type EventStream, eventually, openEventStream, type StreamFrame } from '@codedock/testkit';
import type { Recording } from './checker/history.js';

/** A client that follows a session, comes back with the last number it saw, and keeps every frame of all connections. */
export interface SessionRecorder {
  readonly sessionId: string;
  /** Newest number seen. */
  readonly lastSeq: number;
  /** Resolves when the frame `seq` has arrived. */
  until(seq: number, timeoutMs?: number): Promise<void>;
  /** Ends the connection as a broken network does; the client comes back by itself. */
  drop(): void;
  recording(): Recording;
  close(): void;
}

export interface RecorderOptions {
  readonly sessionId: string;
  readonly tenantId: string;
  readonly key: string;
  /** Address of a gateway that is alive; asked before each connection. */
  readonly url: () => string;
}

/** Begins to follow a session from its first event. */
export function recordSession({ sessionId, tenantId, key, url }: RecorderOptions): SessionRecorder {
  const kept: Recording['frames'][number][] = [];
  let stream: EventStream | undefined;
  /** Frames of the present connection that are kept already. */
  let taken = 0;
  let closed = false;

  const frames = () => {
    if (stream?.status === 200) {
      const { frames: all } = stream;
      for (; taken < all.length; taken += 1) kept.push(...keptFrame(all[taken]));
    }
    return kept;
  };
  const lastSeq = () => frames().at(-1)?.seq ?? 0;

  const follow = async () => {
    while (!closed) {
      const after = lastSeq();
      try {
        stream = await openEventStream(`${url()}/v1/sessions/${sessionId}/events`, {
          headers: { authorization: `Bearer ${key}` },
          ...(after === 0 ? {} : { lastEventId: String(after) }),
        });
        taken = 0;
        if (closed) stream.close();
        await stream.over;
        frames();
      } catch {
        // The gateway is gone or not there yet.
      }
      stream = undefined;
      if (!closed) await delay(50);
    }
  };
  void follow();

  return {
    sessionId,
    get lastSeq() {
      return lastSeq();
    },
    until: async (seq, timeoutMs = 60_000) => {
      await eventually(() => lastSeq() >= seq, {
        timeoutMs,
        what: `a client to see seq ${seq} of session ${sessionId}`,
      });
    },
    drop: () => stream?.close(),
    recording: () => ({ sessionId, tenantId, frames: [...frames()], whole: true }),
    close: () => {
      closed = true;
      stream?.close();
    },
  };
}

function keptFrame(frame: StreamFrame | undefined): Recording['frames'][number][] {
  if (frame?.id === undefined) return [];
  const { eventId } = JSON.parse(frame.data) as { eventId: string };
  return [{ seq: Number(frame.id), eventId, type: frame.event }];
}
