import { table } from './sources.mjs';

const STATES = {
  pending: 'Accepted; waits for its session (`onBusy: enqueue` or `interrupt`) or for a slot of the tenant.',
  queued: 'Waits for a runner.',
  running: 'A runner executes it under a lease.',
  waiting_approval: 'Waits for a person; holds no runner.',
  completed: 'The agent has answered.',
  failed: 'It could not go on.',
  cancelled: 'Somebody cancelled it.',
  timed_out: 'Its time was over; pending and waiting do not count.',
  blocked: 'A policy refused it, or could not be asked.',
};

const REASONS = {
  completed: 'The model replied without asking for a tool.',
  stopped_by_hook: 'An in-process hook ended it after a turn.',
  model_error: 'The model call failed, retries included.',
  tool_error: 'A tool ended the run.',
  max_turns: 'The profile’s limit of turns was reached.',
  max_tool_calls: 'The profile’s limit of tool calls was reached.',
  budget_exceeded: 'The profile’s limit of tokens was reached.',
  crash_loop:
    'Five attempts in a row ended, as when their runner dies, without a turn or tool result stored; a hand-back does not count.',
  hook_error: 'An in-process hook threw.',
  cancelled: 'By `POST …/cancel`.',
  interrupted: 'By a newer input with `onBusy: interrupt`.',
  timeout: 'The profile’s limit of time was reached.',
  blocked_by_hook: '`beforeRunStart` answered block.',
  aborted_by_hook: '`beforeToolCall` answered abort.',
  gate_timeout: 'A gate that must be asked did not answer in time.',
  gate_unavailable: 'A gate that must be asked is down or answered nonsense.',
};

/** States of a run, where each leads, and why runs end. */
export function stateSection({ RUN_STATUSES, STOP_REASONS, mayTransition }) {
  const reasons = Object.entries(STOP_REASONS).flatMap(([state, listed]) => listed.map((reason) => [state, reason]));
  return [
    '## States of a run',
    '',
    ...table(
      ['state', 'next', 'meaning'],
      RUN_STATUSES.map((state) => {
        const next = RUN_STATUSES.filter((to) => mayTransition(state, to));
        return [`\`${state}\``, next.map((to) => `\`${to}\``).join(', ') || 'final', worded(STATES, state)];
      }),
    ),
    '',
    '`stopReason` of a run that has ended:',
    '',
    ...table(
      ['state', 'stopReason', 'why'],
      reasons.map(([state, reason]) => [`\`${state}\``, `\`${reason}\``, worded(REASONS, reason)]),
    ),
    '',
  ];
}

function worded(words, name) {
  if (words[name] === undefined) throw new Error(`scripts/docs/state-section.mjs has no words for ${name}.`);
  return words[name];
}
