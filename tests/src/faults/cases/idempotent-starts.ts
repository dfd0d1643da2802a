import { fakeScript } from '../../system.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';

interface Started {
  readonly run?: { readonly id: string };
}

/** S1: many clients start a run under one idempotency key, through every gateway: one run comes of it, as the checker sees. */
export const idempotentStarts: FaultCase = {
  id: 'S1',
  title: 'one idempotency key, many clients at once',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 1, long: 20 });
    const clients = 100;
    for (let round = 0; round < rounds; round += 1) {
      const sessionId = await system.createSession();
      const key = crypto.randomUUID();
      const headers = { 'idempotency-key': key };
      const post = (body: { readonly content: string }) =>
        system.api<Started>('POST', `/v1/sessions/${sessionId}/runs`, body, { headers });
      const body = { content: fakeScript({ text: 'done' }) };
      const answers = await Promise.all(Array.from({ length: clients }, () => post(body)));
      const runIds = answers.flatMap(({ body: { run } }) => run?.id ?? []);
      system.noteKeyed({ key, body: JSON.stringify(body), runIds });
      const odd = answers.find(({ status }) => status !== 201 && status !== 409);
      if (odd !== undefined) throw new Error(`a duplicate was answered with ${odd.status}`);
      if (runIds.length === 0) throw new Error(`none of ${clients} clients with one key was answered with a run`);
      const other = await post({ content: fakeScript({ text: 'another' }) });
      if (other.status !== 422) throw new Error(`another body was answered with ${other.status}; right is 422`);
      const { rows } = await system.db.query<{ n: number }>(
        'SELECT count(*)::int AS n FROM runs WHERE session_id = $1',
        [sessionId],
      );
      if (rows[0]?.n !== 1) throw new Error(`the session has ${rows[0]?.n} runs; right is 1`);
    }
    return { detail: `${rounds} × ${clients} clients, one run each` };
  },
};
