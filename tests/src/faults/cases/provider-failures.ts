import { failsWith, hangs, type ProviderReply, resets, says } from '@codedock/testkit';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { type FaultSystem, RECORDED } from '../fault-system.js';

const PIECES = ['one ', 'two ', 'three'];
const broken = (by: 'reset' | 'cut' | 'hang'): ProviderReply => says(PIECES, { interruption: { afterPieces: 2, by } });

/** What the provider does first; the next answer is whole. `shown`: clients saw pieces that do not count any more. */
const FAILURES: readonly { readonly name: string; readonly reply: ProviderReply; readonly shown: boolean }[] = [
  { name: 'reset before the answer', reply: resets(), shown: false },
  { name: '429 with Retry-After', reply: failsWith(429, { 'retry-after': '1' }), shown: false },
  { name: '503', reply: failsWith(503), shown: false },
  { name: 'reset in mid stream', reply: broken('reset'), shown: true },
  { name: 'end without an end', reply: broken('cut'), shown: true },
];

/** Failures that take the minute which the host waits for a silent provider. */
const SILENCE: typeof FAILURES = [
  { name: 'silence after 200', reply: broken('hang'), shown: true },
  { name: 'silence before any answer', reply: hangs(), shown: false },
];

/** R11: the provider fails before and in the middle of a reply: asked again, one message, and clients are told. */
export const providerFailures: FaultCase = {
  id: 'R11',
  title: 'the provider fails in mid stream',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const failures = context.pick({ short: FAILURES, long: [...FAILURES, ...SILENCE] });
    for (const failure of failures) await failOnce(system, failure);
    return { detail: failures.map(({ name }) => name).join(', ') };
  },
};

async function failOnce(system: FaultSystem, { name, reply, shown }: (typeof FAILURES)[number]): Promise<void> {
  const before = system.provider.requests.length;
  system.provider.script(reply, says(PIECES));
  const run = await system.start({ script: [], agent: RECORDED });
  const { status, stopReason, attempt } = await system.waitForEnd(run.id, 180_000);
  if (status !== 'completed') throw new Error(`${name}: the run is ${status} (${stopReason})`);
  const requests = system.provider.requests.length - before;
  if (requests < 2 || requests > 1 + attempt)
    throw new Error(`${name}: the provider was asked ${requests} times; right is 2`);
  const { rows } = await system.db.query<{ type: string; n: number }>(
    'SELECT type, count(*)::int AS n FROM events WHERE run_id = $1 GROUP BY type',
    [run.id],
  );
  const count = (type: string) => rows.find((row) => row.type === type)?.n ?? 0;
  if (count('assistant.completed') !== 1)
    throw new Error(`${name}: ${count('assistant.completed')} replies; right is 1`);
  if (shown && count('turn.restarted') < 1) throw new Error(`${name}: no client was told to forget the first pieces`);
}
