import { interpretReply } from '@codedock/plugin-bridge';
import type { gate, Port, plugin } from '@codedock/proto';
import type { GateEndpoint } from './gate-endpoint.js';

/** What a plugin in shadow mode would have decided; `outcome` is `shadow:<decision>`. Times in milliseconds. */
export type ShadowOutcome = Pick<gate.Outcome, 'outcome' | 'reason' | 'durationMs' | 'queueMs' | 'changed'>;

/** What stands in an answer for a plugin in shadow mode that had not decided when the chain was over. */
export const shadowPending = 'shadow:pending';

/** Asks a plugin in shadow mode. Never rejects, and what it answers goes nowhere but into the record. */
export async function shadowOutcome(port: Port, sent: plugin.Envelope, endpoint: GateEndpoint): Promise<ShadowOutcome> {
  const startedAt = performance.now();
  const outcomeOf = (outcome: string, reason: string, queueMs = 0, changed = false): ShadowOutcome => ({
    outcome: `shadow:${outcome}`,
    reason,
    durationMs: performance.now() - startedAt,
    queueMs,
    changed,
  });
  try {
    if (sent.payload.length > endpoint.maxPayloadBytes)
      return outcomeOf('oversize', `the plugin takes ${endpoint.maxPayloadBytes} bytes`);
    const result = await endpoint.ask(sent, endpoint.timeoutMs, endpoint.timeoutMs, undefined);
    if (result.kind === 'cancelled') return outcomeOf('not asked', 'it was given up');
    if (result.kind === 'failed') return outcomeOf(result.outcome, result.reason, result.queueMs);
    const reply = interpretReply(port, sent, result.reply, endpoint.maxPayloadBytes);
    return outcomeOf(reply.outcome, reply.invalid ?? reply.reason ?? '', result.queueMs, reply.changed);
  } catch (error) {
    return outcomeOf('error', (error as Error).message);
  }
}
