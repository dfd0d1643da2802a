import type { JsonObject } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import { decisionOfAnswer, type PortGates, portTable } from '@codedock/plugin-bridge';
import { chainReserveMs, type gate, type Port, type plugin, ports } from '@codedock/proto';
import { envelopeOf, payloadOf } from '../ask.js';
import { requireEqual } from '../difference.js';
import type { Specimen } from '../specimen.js';
import type { Directive } from './directive.js';
import { BY, type Row } from './rows.js';

/** Milliseconds a gate gets beside what its plugin has. */
const slackMs = 200;
const clock = { now: () => Date.now() };
/** What the scratchpad of every row holds beside the directive. */
const bag: JsonObject = { gone: 1, kept: 1, untouched: 'ü' };

/** Puts one row of the table to the plugin, through the host's chain. @throws Error saying what is not as it must be. */
export async function requireRow(specimen: Specimen, row: Row): Promise<void> {
  const port = ports.find((one) => portTable[one].gate === row.gate);
  if (port === undefined) throw new Error(`no port belongs to ${row.gate}`);
  const { sent, answer } = await told(specimen, port, row.event as GateEvent<PortGates[Port]>, row.directive);
  const site = { tenantId: 'tenant', sessionId: sent.sessionId, ...(sent.runId === '' ? {} : { runId: sent.runId }) };
  const { decision, patch } = decisionOfAnswer(port, sent, answer, row.event as never, { site, clock });
  requireEqual(namedBy(row.decision, specimen.plugin.name), parsedBody(decision), 'the decision');
  requireEqual(row.patch, patch, 'the change of the scratchpad');
}

/** Asks a gate with a directive in the scratchpad. */
export async function told(
  specimen: Specimen,
  port: Port,
  event: GateEvent<PortGates[Port]>,
  directive: Directive,
  options: { readonly signal?: AbortSignal; readonly budgetMs?: number } = {},
): Promise<{ readonly sent: plugin.Envelope; readonly answer: gate.GateAnswer }> {
  const scratchpad = { directive: directive as unknown as JsonObject, ...bag };
  const sent = envelopeOf(port, payloadOf(port, event as never), { scratchpad });
  const budgetMs = specimen.limitMs(port) + chainReserveMs + slackMs;
  const answer = await specimen.plugin.gate(port, sent, { budgetMs, ...options });
  return { sent, answer };
}

/** A decision as it is compared: a body by its value, since what is sent is its text. */
export function parsedBody(decision: object): object {
  const body: unknown = Reflect.get(decision, 'body');
  return typeof body === 'string' ? { ...decision, body: JSON.parse(body) as unknown } : decision;
}

/** An expected decision with the name of who decides in place of `BY`. */
export function namedBy(decision: object, by: string): object {
  const entries = Object.entries(decision).map(([key, value]) => {
    if (value === BY) return [key, by];
    if (key === 'reasons') return [key, (value as object[]).map((reason) => namedBy(reason, by))];
    return [key, value];
  });
  return Object.fromEntries(entries);
}
