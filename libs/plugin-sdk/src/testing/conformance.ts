import { type Port, ports } from '@codedock/proto';
import type { JsonObject } from '../json.js';
import { type DecisionName, decisionsOf } from '../ports/decision.js';

/** One rule of the protocol: what an answer's type means on a port. */
export interface ConformanceRow {
  readonly port: Port;
  /** Type of the answer. */
  readonly type: string;
  /** `invalid`: the host has to treat the answer as a failure of the plugin. */
  readonly meaning: DecisionName | 'invalid';
}

const everyDecision = ports.flatMap((port) => Object.keys(decisionsOf[port]));

/** What every answer type means on every port: each decision of the protocol on each port, and a type nobody defines. */
export const conformanceTable: readonly ConformanceRow[] = ports.flatMap((port) => [
  { port, type: '', meaning: 'continued' as const },
  { port, type: port, meaning: 'continued' as const },
  { port, type: 'nonsense/type', meaning: 'invalid' as const },
  ...[...new Set(everyDecision)].map((type) => ({
    port,
    type,
    meaning: decisionsOf[port][type] ?? ('invalid' as const),
  })),
]);

const message = {
  id: 'm1',
  session_id: 's1',
  role: 'user',
  content: { text: 'hello' },
  event_seq: 1,
  created_at: '2026-01-01T00:00:00Z',
};
const call = { id: 'c1', name: 'ping', arguments: { text: 'hello' }, idempotency_key: 'c1' };

/** A well-formed question of each port. */
export const sampleQuestions: Readonly<Record<Port, JsonObject>> = {
  'agent/input': { content: 'hello', mode: 'chat' },
  'agent/pre-step': { system_prompt: 'You are helpful.' },
  'agent/request': { system_prompt: 'You are helpful.', messages: [message] },
  'llm/stream': { headers: { 'content-type': 'application/json' }, body: { model: 'fake', messages: [] } },
  'tools/pre-execute': { call },
  'tools/post-execute': {
    call,
    result: { CallID: 'c1', Name: 'ping', Output: { text: 'hello' }, Success: true, Error: '' },
  },
};
