import { setTimeout as delay } from 'node:timers/promises';
import { HANDLED, TOOLS } from '../effects/acting-plugin.js';
import { EACH_PROFILE, EACH_TIER, type FaultCase } from '../fault-case.js';
import { cancel, decide, openApproval, startActing } from '../observing.js';

/** C1: a run is cancelled, whatever it is doing and however little its model or tool cares. */
export const cancelledRuns: FaultCase = {
  id: 'C1',
  title: 'cancel of whatever hangs',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 3, long: 20 });
    const cancelMs: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      // Longer than a busy machine takes to start the others.
      const streaming = await system.start({ script: [{ chunks: Array(2_400).fill('x'), chunkDelayMs: 50 }] });
      const hanging = await system.start({ script: [{ text: 'a', hang: true }] });
      const deaf = await system.start({ script: [{ text: 'a', hang: true, ignoreAbort: true }] });
      const { run: acting } = await startActing(system, TOOLS.effectful);
      const asking = await system.start({ script: [{ toolCalls: [{ name: TOOLS.approved, arguments: {} }] }] });
      const behind = await system.start({
        script: [{ text: 'never' }],
        sessionId: streaming.sessionId,
        onBusy: 'enqueue',
      });
      await openApproval(system, asking.id);
      for (const { id } of [streaming, hanging, deaf])
        await system.waitForRun(id, ({ status }) => status === 'running');
      const ended = await Promise.all(
        [behind, streaming, hanging, deaf, acting, asking].map(({ id }) => cancel(system, id)),
      );
      for (const { ms, status } of ended) {
        if (status !== 'cancelled') throw new Error(`a cancelled run is ${status}`);
        cancelMs.push(ms);
      }
      await system.sink.release();
    }
    return { cancelMs, detail: `${cancelMs.length} cancels` };
  },
};

/** R8: cancel against the end, against the claim and against a decision: one of the two wins, and both agree which. */
export const cancelRaces: FaultCase = {
  id: 'R8',
  title: 'cancel races the end, the claim and the decision',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const rounds = context.pick({ short: 15, long: 150 });
    const won: Record<string, number> = {};
    for (let round = 0; round < rounds; round += 1) {
      const quick = await system.start({ script: [{ text: 'done' }] });
      const asking = await system.start({ script: [{ toolCalls: [{ name: TOOLS.approved, arguments: {} }] }] });
      await delay(context.random.integer(0, 40));
      const ends = [cancel(system, quick.id)];
      const approval = await openApproval(system, asking.id);
      const decided = decide(system, approval, 'approve');
      if (context.random.next() < 0.5) await delay(context.random.integer(0, 30));
      ends.push(cancel(system, asking.id));
      const said = await decided;
      if (![200, 404, 409].includes(said)) throw new Error(`the decision was answered with ${said}`);
      for (const [index, { id }] of [quick, asking].entries()) {
        const answer = await ends[index];
        const { status } = await system.waitForEnd(id);
        if (answer?.status !== status) throw new Error(`the cancel says ${answer?.status} of a run that is ${status}`);
        won[status] = (won[status] ?? 0) + 1;
      }
    }
    const seen = Object.entries(won).map(([status, count]) => `${count} ${status}`);
    return { detail: `${rounds * 2} races: ${seen.join(', ')}` };
  },
};

/** R9: an interrupting input that a hook deals with itself interrupts nothing. */
export const handledInterrupts: FaultCase = {
  id: 'R9',
  title: 'interrupt by input that a hook deals with',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const count = context.pick({ short: 25, long: 1_000 });
    const { run } = await startActing(system, TOOLS.effectful);
    for (let sent = 0; sent < count; sent += 5) {
      const answers = await Promise.all(
        Array.from({ length: 5 }, () =>
          system.api('POST', `/v1/sessions/${run.sessionId}/runs`, { content: HANDLED, onBusy: 'interrupt' }),
        ),
      );
      const wrong = answers.find(({ status }) => status !== 200);
      if (wrong !== undefined) throw new Error(`handled input was answered with ${wrong.status}`);
    }
    await system.sink.release();
    const { status } = await system.waitForEnd(run.id);
    if (status !== 'completed') throw new Error(`the active run is ${status}`);
    return { detail: `${count} inputs, the active run completed` };
  },
};

/** R10: many clients approve at once; a decision after a cancel, and another one than before, are refused. */
export const approvedManyTimes: FaultCase = {
  id: 'R10',
  title: 'an approval is decided by many clients at once',
  tiers: EACH_TIER,
  profiles: EACH_PROFILE,
  async run(context) {
    const system = await context.standing();
    const clients = 50;
    const rounds = context.pick({ short: 1, long: 20 });
    for (let round = 0; round < rounds; round += 1) {
      const script = [{ toolCalls: [{ name: TOOLS.approved, arguments: { round } }] }, { text: 'done' }];
      const run = await system.start({ script });
      const approval = await openApproval(system, run.id);
      const statuses = await Promise.all(Array.from({ length: clients }, () => decide(system, approval, 'approve')));
      const wrong = statuses.filter((status) => status !== 200);
      if (wrong.length > 0) throw new Error(`the same decision was answered with ${[...new Set(wrong)]}`);
      const other = await decide(system, approval, 'deny');
      if (other !== 409) throw new Error(`another decision was answered with ${other}; right is 409`);
      const { status } = await system.waitForEnd(run.id);
      if (status !== 'completed') throw new Error(`the approved run is ${status}`);

      const cancelled = await system.start({ script });
      const late = await openApproval(system, cancelled.id);
      await cancel(system, cancelled.id);
      const answer = await decide(system, late, 'approve');
      if (answer !== 409) throw new Error(`a decision after the cancel was answered with ${answer}; right is 409`);
    }
    return { detail: `${rounds} × ${clients} clients, one execution each` };
  },
};
