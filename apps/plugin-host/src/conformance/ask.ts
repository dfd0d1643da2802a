import { randomUUID } from 'node:crypto';
import type { GateCall, JsonObject } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import {
  encodeScratchpad,
  interpretReply,
  type PortGates,
  type PortReply,
  portMappings,
} from '@codedock/plugin-bridge';
import { type Port, plugin } from '@codedock/proto';
import type { AskResult } from '../session/plugin-session.js';
import { eventsOf } from './events.js';
import type { Specimen } from './specimen.js';

/** What surrounds a question. */
export interface AskOptions {
  readonly scratchpad?: JsonObject;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** Laid over the envelope. */
  readonly envelope?: Partial<plugin.Envelope>;
}

/** Who asks, with a member that no version knows. */
const principal = { tenant: 'default', key: 'conformance', agent: 'default', metadata: { ü: true }, x_future: [1] };

/** The call of a gate as the mappings of the ports want it. */
export function gateCall(): GateCall {
  return {
    site: { tenantId: 'tenant', sessionId: randomUUID(), runId: randomUUID(), turnId: randomUUID() },
    principal: { tenant: 'default', key: 'conformance', agent: 'default', metadata: {} },
    signal: new AbortController().signal,
    scratchpad: {},
    merge: () => undefined,
    record: () => undefined,
    records: [],
  };
}

/** The question as it travels. */
export function envelopeOf(
  port: Port,
  payload: string,
  { scratchpad = {}, envelope = {} }: AskOptions,
): plugin.Envelope {
  const hasRun = port !== 'agent/input';
  return plugin.Envelope.fromPartial({
    type: port,
    chainId: randomUUID(),
    sessionId: randomUUID(),
    runId: hasRun ? randomUUID() : '',
    turnId: hasRun ? randomUUID() : '',
    payload: Buffer.from(payload),
    context: encodeScratchpad(scratchpad),
    principal: Buffer.from(JSON.stringify(principal)),
    ...envelope,
  });
}

export function payloadOf<P extends Port>(port: P, event: GateEvent<PortGates[P]>): string {
  return portMappings[port].encode(event, gateCall());
}

/** Puts a question to the plugin; answers what came back, unjudged. */
export function put(specimen: Specimen, sent: plugin.Envelope, options: AskOptions = {}): Promise<AskResult> {
  const timeoutMs = options.timeoutMs ?? specimen.limitMs(sent.type as Port);
  return specimen.plugin.ask({ ...sent, budgetMs: timeoutMs }, timeoutMs, options.signal);
}

/** Puts a question and judges the answer as the host does. @throws Error where it counts as a failure of the plugin. */
export async function requireAnswer(
  specimen: Specimen,
  port: Port,
  payload: string,
  options: AskOptions = {},
): Promise<PortReply> {
  const sent = envelopeOf(port, payload, options);
  const result = await put(specimen, sent, options);
  if (result.kind === 'cancelled') throw new Error('the question was cancelled');
  if (result.kind === 'failed') throw new Error(`${result.outcome}: ${result.reason}`);
  const reply = interpretReply(port, sent, result.reply, specimen.plugin.manifest.maxPayloadBytes || undefined);
  if (reply.invalid !== undefined) throw new Error(`${reply.outcome}: ${reply.invalid}`);
  return reply;
}

/** @throws Error unless the process lives and, where it has a gate, answers a plain question. */
export async function requireStillAnswers(specimen: Specimen): Promise<void> {
  specimen.requireAlive();
  const [port] = specimen.ports;
  if (port !== undefined) await requireAnswer(specimen, port, plainPayload(port));
  specimen.requireAlive();
}

/** A plain question of a port. */
export function plainPayload<P extends Port>(port: P): string {
  return payloadOf(port, eventsOf[port]('a plain text'));
}
