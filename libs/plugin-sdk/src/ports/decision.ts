import type { Port } from '@codedock/proto';

/** What an answer does to its gate. */
export type DecisionName = 'continued' | 'changed' | 'handled' | 'blocked' | 'denied' | 'asked' | 'skipped' | 'aborted';

/** Answer types with a meaning, by port. The empty type and the port's own name mean "go on" on every port. */
export const decisionsOf: Readonly<Record<Port, Readonly<Record<string, DecisionName>>>> = {
  'agent/input': { 'input/handled': 'handled', 'input/blocked': 'blocked' },
  'agent/pre-step': { 'run/blocked': 'blocked' },
  'agent/request': {},
  'llm/stream': {},
  'tools/pre-execute': {
    'tools/denied': 'denied',
    'tools/ask': 'asked',
    'tools/skipped': 'skipped',
    'run/aborted': 'aborted',
  },
  'tools/post-execute': {},
};
