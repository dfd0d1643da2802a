import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { apiOf } from '../../api.js';
import type { RunView } from '../../system.js';

/** Statuses after which a request is sent again as it was, when the answer says so. */
const AGAIN: ReadonlySet<number> = new Set([409, 429, 503]);
/** Without an answer for so long, a client gives the connection up and asks another gateway. */
const PATIENCE_MS = 30_000;
const COME_BACK_MS = 100;

/** What a client saw until its run was accepted. */
export interface SentRun {
  readonly run: RunView;
  /** Answers before the last, by status; `broken` for requests without any. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Longest wait for an answer, milliseconds. */
  readonly longestMs: number;
}

/** How a client reaches the service. */
export interface GoodClientOptions {
  readonly key: string;
  /** Address of a gateway; asked before each request. */
  readonly url: () => string;
}

/**
 * Sends a run under one idempotency key until it is accepted. Sent again is what got no answer and what was answered 409,
 * 429 or 503 with a Retry-After.
 * @throws on any other answer.
 */
export async function sendRun(
  { key, url }: GoodClientOptions,
  sessionId: string,
  body: Readonly<Record<string, unknown>>,
): Promise<SentRun> {
  const idempotencyKey = randomUUID();
  const refusals: Record<string, number> = {};
  let longestMs = 0;
  const refused = (why: string) => {
    refusals[why] = (refusals[why] ?? 0) + 1;
  };
  for (;;) {
    const began = performance.now();
    const answer = await answerOf(url(), key, `/v1/sessions/${sessionId}/runs`, body, idempotencyKey);
    longestMs = Math.max(longestMs, performance.now() - began);
    if (answer === undefined) {
      refused('broken');
      await delay(COME_BACK_MS);
      continue;
    }
    if (answer.status === 201) return { run: answer.body.run, refusals, longestMs };
    const after = answer.headers.get('retry-after');
    if (!AGAIN.has(answer.status) || after === null) {
      throw new Error(
        `a run was answered ${answer.status} (Retry-After ${after}) ${JSON.stringify(answer.body)} after ${JSON.stringify(refusals)}`,
      );
    }
    refused(`${answer.status} ${(answer.body as unknown as { code?: string }).code}`);
    await delay(Number(after) * 1_000);
  }
}

async function answerOf(url: string, key: string, path: string, body: unknown, idempotencyKey: string) {
  const within = new AbortController();
  const timer = setTimeout(() => within.abort(), PATIENCE_MS);
  try {
    return await apiOf(url, key)<{ run: RunView }>('POST', path, body, {
      headers: { 'idempotency-key': idempotencyKey },
      signal: within.signal,
    });
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Counts of several clients together. */
export function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const all: Record<string, number> = {};
  for (const each of counts) for (const [name, count] of Object.entries(each)) all[name] = (all[name] ?? 0) + count;
  return all;
}
