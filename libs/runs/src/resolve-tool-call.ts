import { type JsonValue, outputForModel, type ToolResult } from '@codedock/domain';
import type { PlacedToolCall } from '@codedock/store';
import { publishEvents } from './after-commit.js';
import type { RunPorts } from './ports.js';

/** What a person found out about a call whose outcome is unknown. */
export interface ResolveToolCall {
  readonly tenantId: string;
  readonly callId: string;
  /** It took effect, it did not, or it shall be executed again under the same idempotency key. */
  readonly outcome: 'happened' | 'did_not' | 'retry';
  /** What it gave; with `happened`. */
  readonly output?: JsonValue;
  /** Told to the model and kept in the audit. */
  readonly note?: string;
  /** The API key. */
  readonly actor: { readonly id: string; readonly name: string };
}

const STATES = { happened: 'succeeded', did_not: 'failed', retry: 'approved' } as const;
const TEXTS = {
  happened: 'A person has confirmed that this call took effect.',
  did_not: 'A person has confirmed that this call did not take effect.',
  retry: 'A person wants this call to be tried again.',
} as const;

/**
 * Stores a person's word on an `unknown` call. What the model is told of it changes for later attempts and runs. A retry
 * is for a call whose run waits: its next attempt executes the call first. The same word again gives the same answer.
 * Throws not_found, forbidden (retry by the creator of the run, where he may not approve), conflict, run_ended (retry
 * after the end).
 */
export async function resolveToolCall(
  ports: Pick<RunPorts, 'store' | 'bus' | 'ids'>,
  input: ResolveToolCall,
): Promise<PlacedToolCall> {
  const { tenantId, callId, outcome, note, actor } = input;
  const text = note === undefined ? TEXTS[outcome] : `${TEXTS[outcome]} ${note}`;
  const result = outcome === 'retry' ? undefined : resultOf(outcome, text, input.output);
  const events = await ports.store.toolCalls.resolve({
    tenantId,
    callId,
    outcome,
    state: STATES[outcome],
    reason: text,
    actor,
    eventId: ports.ids.next(),
    ...(result === undefined ? {} : { result, output: outputForModel(result) }),
    ...(note === undefined ? {} : { note }),
  });
  publishEvents(ports.bus, events);
  return ports.store.toolCalls.get(tenantId, callId);
}

function resultOf(outcome: 'happened' | 'did_not', text: string, output: JsonValue | undefined): ToolResult {
  return outcome === 'happened'
    ? { success: true, output: output ?? text }
    : { success: false, output: text, error: text };
}
