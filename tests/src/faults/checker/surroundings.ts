import type { Invariant, Violation } from './invariant.js';

/** I13: no secret is in a log or an event. */
export const noSecretEscapes: Invariant = {
  id: 'I13',
  promise: 'no secret is written into a log or the ledger',
  check({ logs, secrets, events }) {
    const texts = [...logs, ['the ledger', events.map(({ payload }) => JSON.stringify(payload)).join('\n')] as const];
    return [...secrets].flatMap(([name, secret]) =>
      texts
        .filter(([, text]) => text.includes(secret))
        .map(([where]): Violation => ({ harm: 'other', what: `${name} is written in ${where}` })),
    );
  },
};

/** I17: processes, folders and sockets are as before. */
export const nothingIsLeft: Invariant = {
  id: 'I17',
  promise: 'processes, folders and sockets return to what they were',
  check: ({ leftovers }) => leftovers.map((left): Violation => ({ harm: 'other', what: `left behind: ${left}` })),
};
