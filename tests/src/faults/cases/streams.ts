import { request } from 'node:http';
import { eventually } from '@codedock/testkit';
import { type StreamCrowd, startCrowd } from '../clients/stream-crowd.js';
import { endOf } from '../clients/traffic.js';
import { TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import type { FaultSystem } from '../fault-system.js';
import { startActing } from '../observing.js';

/** A generous time for what takes seconds, on a busy machine. */
const PATIENCE_MS = 90_000;
/** More than the kernel keeps for a reader that does not read. */
const LARGE = { events: 640, bytes: 16 * 1_024 } as const;
const READERS = 10;

/** L3: readers stop reading without a word, beside others of the same session. */
export const stalledReaders: FaultCase = {
  id: 'L3',
  title: 'readers that stop reading',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const count = context.pick({ short: 10, long: 100 });
    const { run, call } = await startActing(system, TOOLS.effectful);
    const crowds: StreamCrowd[] = [];
    const follow = async (clients: number, more: { readonly stallAfterBytes?: number } = {}) => {
      const crowd = await startCrowd({
        key: system.key,
        sessions: [run.sessionId],
        clients,
        urls: () => system.livingUrls(),
        ...more,
      });
      crowds.push(crowd);
      return crowd;
    };
    try {
      const readers = await follow(READERS);
      const stalled = await follow(count, { stallAfterBytes: 0 });
      await readers.until(new Map([[run.sessionId, 1]]), PATIENCE_MS);
      await system.recorderOf(run.sessionId).until(1, PATIENCE_MS);
      await eventually(async () => (await stalled.report()).connections >= count, {
        timeoutMs: PATIENCE_MS,
        what: 'the readers that will stall to be connected',
      });
      const open = await openStreams(system);
      const began = performance.now();
      const lastSeq = await writeEvents(system, run.id, LARGE.events, LARGE.bytes);
      await readers.until(new Map([[run.sessionId, lastSeq]]), PATIENCE_MS);
      const othersMs = performance.now() - began;
      await eventually(
        async () => {
          const left = (await openStreams(system)) - (open - count);
          if (left > 0) throw new Error(`${left} are open`);
        },
        { timeoutMs: PATIENCE_MS, intervalMs: 200, what: 'the stalled readers to be closed' },
      );
      const closedMs = performance.now() - began;
      await system.sink.release(call.id);
      const end = await endOf(system, run.id);
      if (end !== 'completed') throw new Error(`the run is ${end}`);
      const { last_seq } = (await system.db.query('SELECT last_seq FROM sessions WHERE id = $1', [run.sessionId]))
        .rows[0];
      const { gaps, dups, connections } = await readers.until(
        new Map([[run.sessionId, Number(last_seq)]]),
        PATIENCE_MS,
      );
      context.note(
        `${context.profile}: ${count} stalled readers were closed within ${Math.round(closedMs)} ms; ${READERS} others had ${Math.round((LARGE.events * LARGE.bytes) / 2 ** 20)} MiB each after ${Math.round(othersMs)} ms over ${connections} streams`,
      );
      return {
        sseGaps: gaps.length,
        sseDups: dups.length,
        recoveryMs: closedMs,
        detail: `${count} stalled, ${READERS} others`,
      };
    } finally {
      await Promise.all(crowds.map((crowd) => crowd.close()));
      await system.sink.release(call.id);
    }
  },
};

/** L4: a run with very many events is replayed whole. */
export const longReplay: FaultCase = {
  id: 'L4',
  title: 'replay of a run with very many events',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const { run, call } = await startActing(system, TOOLS.effectful);
    await writeEvents(system, run.id, context.pick({ short: 2_000, long: 50_000 }), 64).finally(() =>
      system.sink.release(call.id),
    );
    await endOf(system, run.id);
    const { lastSeq } = await system.waitForEnd(run.id);
    const began = performance.now();
    const { seen, gaps, dups } = await replay(`${system.livingUrls()[0]}/v1/runs/${run.id}/events`, system.key);
    const seconds = (performance.now() - began) / 1_000;
    if (seen !== lastSeq) throw new Error(`${seen} of ${lastSeq} events were replayed`);
    return { sseGaps: gaps, sseDups: dups, detail: `${seen} events at ${Math.round(seen / seconds)}/s` };
  },
};

/** Event streams that are open at the living gateways. */
async function openStreams(system: FaultSystem): Promise<number> {
  const counts = await Promise.all(
    system.livingUrls().map(async (url) => {
      const response = await fetch(`${url}/metrics`, { headers: { connection: 'close' } });
      return Number(/^codedock_sse_clients(?:\{[^}]*\})? (\d+)/m.exec(await response.text())?.[1] ?? 0);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Many deltas of a run whose tool is at work, put into its ledger at once. Answers the last number. */
async function writeEvents({ db }: FaultSystem, runId: string, count: number, bytes: number): Promise<number> {
  const { rows } = await db.query<{ last_seq: string }>(
    `WITH one AS (
       SELECT e.* FROM events e WHERE e.run_id = $1 AND e.attempt IS NOT NULL ORDER BY e.seq DESC LIMIT 1
     ), numbered AS (
       UPDATE sessions s SET last_seq = s.last_seq + $2 FROM one WHERE s.id = one.session_id RETURNING s.last_seq
     ), written AS (
       INSERT INTO events (session_id, seq, occurred_at, event_id, tenant_id, run_id, turn_id, attempt, type, version, payload)
       SELECT one.session_id, numbered.last_seq - $2 + n, clock_timestamp(), gen_random_uuid(), one.tenant_id, one.run_id,
         one.turn_id, one.attempt, 'assistant.delta', 1, jsonb_build_object('text', repeat('x', $3))
       FROM one, numbered, generate_series(1, $2::int) n
     )
     SELECT last_seq FROM numbered`,
    [runId, count, bytes],
  );
  return Number(rows[0]?.last_seq);
}

/** Reads a stream to its end. */
function replay(url: string, key: string): Promise<{ seen: number; gaps: number; dups: number }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent: false, headers: { authorization: `Bearer ${key}` } }, (response) => {
      let rest = '';
      const result = { seen: 0, gaps: 0, dups: 0 };
      response.setEncoding('latin1').on('data', (chunk: string) => {
        const lines = (rest + chunk).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          if (!line.startsWith('id: ')) continue;
          const seq = Number(line.slice(4));
          if (seq <= result.seen) result.dups += 1;
          if (seq > result.seen + 1) result.gaps += 1;
          result.seen = Math.max(result.seen, seq);
        }
      });
      response.once('error', reject);
      response.once('end', () => resolve(result));
    });
    sent.once('error', reject);
    sent.end();
  });
}
