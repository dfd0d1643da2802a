import { createParser } from 'eventsource-parser';
import { type ApiClient, failureOf } from './api-client.js';

/** One frame of an event stream. */
export interface TailedEvent {
  readonly seq: number;
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

const RECONNECT_MS = 1_000;

/**
 * Follows a run's events to its end, exactly once each: a lost connection is resumed after the last seq seen.
 * @throws ApiFailure when the gateway refuses the stream.
 */
export async function tailRun(
  client: ApiClient,
  runId: string,
  after: number,
  onEvent: (event: TailedEvent) => void,
): Promise<void> {
  let last = after;
  for (;;) {
    const ended = await readOnce(client, runId, last, (event) => {
      last = event.seq;
      onEvent(event);
    });
    if (ended) return;
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

/** True when the run's stream is over, false when only the connection is. */
async function readOnce(
  client: ApiClient,
  runId: string,
  after: number,
  onEvent: (event: TailedEvent) => void,
): Promise<boolean> {
  const response = await fetch(`${client.url}/v1/runs/${encodeURIComponent(runId)}/events?after=${after}`, {
    headers: { ...client.headers, accept: 'text/event-stream' },
  }).catch(() => undefined);
  if (response === undefined) return false;
  if (response.status === 204) return true;
  if (!response.ok) throw await failureOf(response);
  let terminal = false;
  const parser = createParser({
    onEvent: (frame) => {
      const event = JSON.parse(frame.data) as TailedEvent;
      if (/^run\.(completed|failed|cancelled|timed_out|blocked)$/.test(event.type)) terminal = true;
      onEvent(event);
    },
  });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) parser.feed(decoder.decode(chunk, { stream: true }));
  } catch {
    return terminal;
  }
  return terminal;
}
