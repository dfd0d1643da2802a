import {
  isAppError,
  type ModelChoice,
  type ModelChunk,
  type ModelReply,
  type ToolDefinition,
  type Turn,
} from '@codedock/domain';
import type { Attempt } from './attempt.js';
import type { ModelContext } from './context.js';
import { DeltaRepair } from './delta-repair.js';
import { ending } from './loop-result.js';
import { providerGates } from './provider-gates.js';

/** What a model call is made for. */
export interface CallPurpose {
  /** Names offered to the model. */
  readonly tools?: readonly ToolDefinition[];
  /** `summary`: nobody but the loop hears of the reply. */
  readonly purpose?: 'summary';
  /** Absent: the run's. */
  readonly model?: ModelChoice;
}

/** One model call, streamed into the ledger unless deltas are held. Retries are the adapter's; its last failure ends the run. */
export async function callModel(
  attempt: Attempt,
  turn: Turn,
  context: ModelContext,
  { tools = [], purpose, model = attempt.snapshot.config.model }: CallPurpose,
): Promise<ModelReply> {
  const { snapshot, ports, bounds } = attempt;
  const provider = providerGates(attempt, turn);
  const request = {
    model,
    systemPrompt: context.systemPrompt,
    messages: context.messages,
    tools,
    retry: snapshot.config.retry,
    runId: snapshot.runId,
    sessionId: snapshot.sessionId,
    turn: turn.iteration,
    ...(purpose === undefined ? {} : { purpose }),
  };
  try {
    const stream = ports.model.stream(request, provider.gates, bounds.signal);
    const reply = await readReply(attempt, stream, purpose === 'summary' ? UNHEARD : shownIn(attempt, turn));
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

/** Who hears of a reply while it comes. */
interface Audience {
  begin(): void;
  delta(text: string): void;
  restart(): void;
}

const UNHEARD: Audience = { begin: () => undefined, delta: () => undefined, restart: () => undefined };

/** The session's ledger, unless deltas are held. */
function shownIn(attempt: Attempt, turn: Turn): Audience {
  const { ledger } = attempt.ports;
  const held = attempt.snapshot.config.holdDeltas;
  return {
    begin: () => {
      if (!held) attempt.note(ledger.assistantStarted(turn));
    },
    delta: (text) => {
      if (!held && text !== '') ledger.assistantDelta(turn, text);
    },
    restart: () => attempt.note(ledger.turnRestarted(turn, 'model_retry')),
  };
}

async function readReply(
  attempt: Attempt,
  stream: AsyncIterable<ModelChunk>,
  audience: Audience,
): Promise<ModelReply | undefined> {
  const chunks = stream[Symbol.asyncIterator]();
  let repair = new DeltaRepair();
  audience.begin();
  try {
    for (;;) {
      const next = await attempt.bounds.race(chunks.next());
      if (next.done === true) return undefined;
      const chunk = next.value;
      if (chunk.kind === 'completed') {
        audience.delta(repair.rest());
        return chunk.reply;
      }
      if (chunk.kind === 'delta') {
        audience.delta(repair.next(chunk.text));
      } else {
        repair = new DeltaRepair();
        audience.restart();
        audience.begin();
      }
    }
  } finally {
    // Not awaited: a stream that ignores its signal must not keep the loop.
    void (async () => chunks.return?.())().catch(() => undefined);
  }
}
