import {
  addUsage,
  type CallSettled,
  type Clock,
  type ContextCompacted,
  type GatedCall,
  type IdSource,
  type JsonValue,
  type LedgerEventType,
  type LedgerPayloads,
  type NewLedgerEvent,
  type ResultSource,
  type RunSnapshot,
  type RunStart,
  type ToolCall,
  type ToolResult,
  type Turn,
  type TurnReply,
  toolMessageOf,
  type Usage,
} from '@codedock/domain';
import type { CallChange } from '@codedock/store';
import type { Fact } from './fact.js';

/** Translates the calls of the ledger port into events and rows. Holds nothing but the usage so far. */
export class FactsOf {
  readonly #snapshot: RunSnapshot;
  readonly #ids: IdSource;
  readonly #clock: Clock;
  #usage: Usage;

  constructor(snapshot: RunSnapshot, ids: IdSource, clock: Clock) {
    this.#snapshot = snapshot;
    this.#ids = ids;
    this.#clock = clock;
    this.#usage = snapshot.usage;
  }

  runStarted(start: RunStart): Fact {
    return { events: [this.#event('run.started', {})], changes: { run: { start } } };
  }

  turnStarted(turn: Turn, tools: readonly string[]): Fact {
    return {
      events: [this.#event('turn.started', { iteration: turn.iteration, tools }, turn.id)],
      changes: {
        turns: [{ id: turn.id, iteration: turn.iteration, status: 'open', tools }],
        run: { turns: turn.iteration },
      },
    };
  }

  turnResumed(turn: Turn): Fact {
    return { events: [this.#event('turn.resumed', { iteration: turn.iteration }, turn.id)], changes: {} };
  }

  turnRestarted(turn: Turn, reason: 'attempt' | 'model_retry'): Fact {
    return {
      events: [this.#event('turn.restarted', { iteration: turn.iteration, reason }, turn.id)],
      changes: { turns: [{ id: turn.id, iteration: turn.iteration, status: 'open', restarts: 1 }] },
    };
  }

  contextCompacted(turn: Turn, { checkpoint, usage, remaining }: ContextCompacted): Fact {
    this.#usage = addUsage(this.#usage, usage);
    const { summary, messages: summarised } = checkpoint;
    const payload = { messages: remaining, summarised, summary, usage, total: this.#usage };
    return {
      events: [this.#event('context.compacted', payload, turn.id)],
      changes: { checkpoint, run: { usage, progress: true } },
    };
  }

  usageRecorded(turn: Turn, usage: Usage): Fact {
    return { events: [this.#usageRecorded(turn, usage)], changes: { run: { usage } } };
  }

  assistantStarted(turn: Turn): Fact {
    return { events: [this.#event('assistant.started', {}, turn.id)], changes: {} };
  }

  assistantDelta(turn: Turn, text: string): Fact {
    return { events: [this.#event('assistant.delta', { text }, turn.id)], changes: {} };
  }

  assistantCompleted(turn: Turn, reply: TurnReply): Fact {
    const completed = this.#event(
      'assistant.completed',
      { message: reply.message, finishReason: reply.finishReason, ...(reply.repaired === true && { repaired: true }) },
      turn.id,
    );
    return {
      events: [
        completed,
        this.#usageRecorded(turn, reply.usage),
        ...reply.calls.map((call) =>
          this.#event('tool.call_started', { callId: call.id, tool: call.name, arguments: call.arguments }, turn.id),
        ),
      ],
      changes: {
        messages: [{ message: reply.message, eventId: completed.eventId }],
        turns: [
          {
            id: turn.id,
            iteration: turn.iteration,
            status: 'replied',
            usage: reply.usage,
            finishReason: reply.finishReason,
          },
        ],
        calls: reply.calls.map(newCall),
        run: { usage: reply.usage, toolCalls: reply.calls.length, progress: true },
      },
    };
  }

  callGated(call: ToolCall, gated: GatedCall): Fact {
    return { events: [], changes: { calls: [{ id: call.id, state: call.state, arguments: call.arguments, gated }] } };
  }

  callSettled({ call, state, result, source, by }: CallSettled): Fact {
    const named = by === undefined ? {} : { by };
    const event = this.#event(
      'tool.execution_result',
      { callId: call.id, tool: call.name, state, source, result, ...named },
      call.turnId,
    );
    return {
      events: [event],
      changes: {
        ...this.#resultMessage(call, result, event),
        calls: [{ id: call.id, state, arguments: call.arguments, result, source, ...named }],
        run: { progress: true },
      },
    };
  }

  executionStarted(call: ToolCall, n: number, gated: GatedCall): Fact {
    return {
      events: [
        this.#event(
          'tool.execution_started',
          { callId: call.id, tool: call.name, n, arguments: call.arguments },
          call.turnId,
        ),
      ],
      changes: {
        calls: [{ id: call.id, state: 'executing', expect: { digest: gated.digest, gateVersion: gated.gateVersion } }],
        executions: [{ callId: call.id, n, state: 'executing' }],
      },
    };
  }

  executionRetried(call: ToolCall, n: number, error: string): Fact {
    return {
      events: [this.#event('tool.execution_retry', { callId: call.id, tool: call.name, n, error }, call.turnId)],
      changes: { executions: [{ callId: call.id, n, state: 'failed', error }] },
    };
  }

  executionFinished(call: ToolCall, n: number, result: ToolResult, source: ResultSource): Fact {
    const state = result.success ? 'succeeded' : 'failed';
    const event = this.#event(
      'tool.execution_result',
      { callId: call.id, tool: call.name, state, source, result },
      call.turnId,
    );
    return {
      events: [event],
      changes: {
        ...this.#resultMessage(call, result, event),
        calls: [{ id: call.id, state, result, source }],
        executions: [{ callId: call.id, n, state, ...errorOf(result) }],
        run: { progress: true },
      },
    };
  }

  executionUnknown(call: ToolCall, n: number, error: string, result: ToolResult): Fact {
    const event = this.#event('tool.outcome_unknown', { callId: call.id, tool: call.name, error }, call.turnId);
    return {
      events: [event],
      changes: {
        ...this.#resultMessage(call, result, event),
        calls: [{ id: call.id, state: 'unknown', result, source: 'host' }],
        executions: [{ callId: call.id, n, state: 'unknown', error }],
        run: { progress: true },
      },
    };
  }

  turnCompleted(turn: Turn): Fact {
    return {
      events: [this.#event('turn.completed', { iteration: turn.iteration }, turn.id)],
      changes: {
        turns: [{ id: turn.id, iteration: turn.iteration, status: 'completed' }],
        run: { progress: true },
      },
    };
  }

  extensionEmitted(extension: string, name: string, payload: JsonValue): Fact {
    return { events: [this.#event('extension.event', { extension, name, payload })], changes: {} };
  }

  #usageRecorded(turn: Turn, usage: Usage): NewLedgerEvent {
    this.#usage = addUsage(this.#usage, usage);
    return this.#event('turn.usage_recorded', { usage, total: this.#usage }, turn.id);
  }

  #event<T extends LedgerEventType>(type: T, payload: LedgerPayloads[T], turnId?: string): NewLedgerEvent {
    const event = { eventId: this.#ids.next(), type, payload, ...(turnId === undefined ? {} : { turnId }) };
    return event as unknown as NewLedgerEvent;
  }

  #resultMessage(call: ToolCall, result: ToolResult, event: NewLedgerEvent) {
    const { sessionId, runId } = this.#snapshot;
    const createdAt = new Date(this.#clock.now()).toISOString();
    return {
      messages: [{ message: toolMessageOf(call, result, { sessionId, runId, createdAt }), eventId: event.eventId }],
    };
  }
}

function newCall(call: ToolCall): CallChange {
  return {
    id: call.id,
    state: call.state,
    turnId: call.turnId,
    index: call.index,
    name: call.name,
    arguments: call.arguments,
    effect: call.effect,
    ...(call.providerCallId === undefined ? {} : { providerCallId: call.providerCallId }),
  };
}

function errorOf({ error, success }: ToolResult): { error?: string } {
  return success || error === undefined ? {} : { error };
}
