import type { JsonObject } from '@codedock/domain';
import { type Port, plugin } from '@codedock/proto';

const message = {
  id: 'message-1',
  session_id: 'session-1',
  role: 'user',
  content: { text: 'Please list the files.' },
  event_seq: 1,
  created_at: '2026-01-01T00:00:00Z',
};
const call = { id: 'call-1', name: 'shell', arguments: { command: 'ls -l' }, attempt: 1, idempotency_key: 'call-1' };
const prompt = 'You are helpful.';

const payloads: Readonly<Record<Port, JsonObject>> = {
  'agent/input': { content: 'Please list the files.', mode: 'chat' },
  'agent/pre-step': { system_prompt: prompt },
  'agent/request': { system_prompt: prompt, messages: [message] },
  'llm/stream': { headers: { 'content-type': 'application/json' }, body: { model: 'fake', messages: [] } },
  'tools/pre-execute': { call },
  'tools/post-execute': {
    call,
    result: { CallID: 'call-1', Name: 'shell', Output: { text: 'README.md' }, Success: true, Error: '' },
  },
};
const principal = { tenant: 'default', key: 'bench', actor: 'bench', agent: 'default', metadata: {} };

/** A small, well-formed question of a port. */
export function sampleQuestion(port: Port): plugin.Envelope {
  return plugin.Envelope.fromPartial({
    type: port,
    chainId: 'chain-1',
    sessionId: 'session-1',
    runId: port === 'agent/input' ? '' : 'run-1',
    turnId: port === 'agent/input' ? '' : 'turn-1',
    payload: Buffer.from(JSON.stringify(payloads[port])),
    context: Buffer.from('{}'),
    budgetMs: 2_000,
    attempt: 1,
    principal: Buffer.from(JSON.stringify(principal)),
  });
}
