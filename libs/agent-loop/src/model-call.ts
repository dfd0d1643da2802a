import { isAppError, type ModelChunk, type ModelReply, type ToolDefinition, type Turn } from '@codedock/domain';
import type { Attempt } from './attempt.js';
import type { ModelContext } from './context.js';
import { DeltaRepair } from './delta-repair.js';
import { ending } from './loop-result.js';
import { providerGates } from './provider-gates.js';

/** One model call, streamed into the ledger unless deltas are held. Retries are the adapter's; its last failure ends the run. */
export async function callModel(
  attempt: Attempt,
  turn: Turn,
  context: ModelContext,
  tools: readonly ToolDefinition[],
): Promise<ModelReply> {
  const { snapshot, ports, bounds } = attempt;
  const provider = providerGates(attempt, turn);
  const request = {
    model: snapshot.config.model,
    systemPrompt: context.systemPrompt,
    messages: context.messages,
    tools,
    retry: snapshot.config.retry,
    runId: snapshot.runId,
    sessionId: snapshot.sessionId,
  };
  try {
    const reply = await readReply(attempt, turn, ports.model.stream(request, provider.gates, bounds.signal));
    const exit = provider.exit();
    if (exit !== undefined) throw exit;
    if (reply !== undefined) return reply;
  } catch (error) {
    bounds.check();
    const exit = provider.exit();
    if (exit !== undefined) throw exit;
    ports.report?.(error, 'model');
    throw ending(
      'model_error',
      isAppError(error) ? error.message : 'The model provider failed; the cause is in the logs.',
    );
  }
  throw ending('model_error', 'The model provider ended its stream before the reply was complete.');
}

async function readReply(
  attempt: Attempt,
  turn: Turn,
  stream: AsyncIterable<ModelChunk>,
): Promise<ModelReply | undefined> {
  const { ledger } = attempt.ports;
  const held = attempt.snapshot.config.holdDeltas;
  const chunks = stream[Symbol.asyncIterator]();
  let repair = new DeltaRepair();
  const show = (text: string) => {
    if (!held && text !== '') ledger.assistantDelta(turn, text);
  };
  if (!held) attempt.note(ledger.assistantStarted(turn));
  try {
    for (;;) {
      const next = await attempt.bounds.race(chunks.next());
      if (next.done === true) return undefined;
      const chunk = next.value;
      if (chunk.kind === 'completed') {
        show(repair.rest());
        return chunk.reply;
      }
      if (chunk.kind === 'delta') {
        show(repair.next(chunk.text));
      } else {
        repair = new DeltaRepair();
        attempt.note(ledger.turnRestarted(turn, 'model_retry'));
        if (!held) attempt.note(ledger.assistantStarted(turn));
      }
    }
  } finally {
    // Not awaited: a stream that ignores its signal must not keep the loop.
    void (async () => chunks.return?.())().catch(() => undefined);
  }
}
