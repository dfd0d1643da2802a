import {
  type Message,
  type Model,
  type ModelGates,
  type ModelReply,
  type ModelRequest,
  type ToolInvocation,
  type Tools,
  type Turn,
  textOf,
} from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { ATTRIBUTES, contentAttribute, metrics, openSpan, recordFailure, type SpanIds } from '@codedock/platform';
import { type Attributes, type Context, context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';

const tracer = () => trace.getTracer('codedock');

/**
 * Spans and metrics of one attempt: turns inside the run, and inside a turn its model calls, tool executions and gates.
 * Without telemetry every span is a no-op.
 */
export class RunSpans {
  readonly #idsOf: (turn: number) => SpanIds;
  /** The span of the attempt. */
  readonly #root = trace.getActiveSpan();
  #turn: { readonly id: string; readonly span: Span; readonly within: Context } | undefined;

  /** Made inside the span of the attempt. `idsOf` gives the ids of a turn's span, so that a later attempt can name it. */
  constructor(idsOf: (turn: number) => SpanIds) {
    this.#idsOf = idsOf;
  }

  /** For `ExecutionPorts.onTurn`. */
  onTurn(turn: Turn, phase: 'started' | 'completed'): void {
    if (phase === 'completed' || this.#turn?.id !== turn.id) this.end();
    if (phase === 'completed' || this.#turn !== undefined) return;
    this.#turn = {
      id: turn.id,
      ...openSpan(turnSpanName(turn.iteration), {
        ids: this.#idsOf(turn.iteration),
        attributes: { [ATTRIBUTES.turn]: turn.iteration },
      }),
    };
  }

  /** Ends the span of a turn that the attempt leaves open. */
  end(): void {
    this.#turn?.span.end();
    this.#turn = undefined;
  }

  /** The model with a span around every call, by the GenAI semantic conventions. */
  model(model: Model): Model {
    const inTurn = () => this.#within();
    return {
      async *stream(request: ModelRequest, gates: ModelGates, signal: AbortSignal) {
        const { provider, name } = request.model;
        const span = tracer().startSpan(
          `chat ${name}`,
          {
            kind: SpanKind.CLIENT,
            attributes: {
              'gen_ai.operation.name': 'chat',
              'gen_ai.provider.name': provider,
              'gen_ai.request.model': name,
              'gen_ai.conversation.id': request.sessionId,
              [ATTRIBUTES.runId]: request.runId,
              ...contentAttribute('gen_ai.system_instructions', () => request.systemPrompt),
              ...contentAttribute('gen_ai.input.messages', () => request.messages.map(shownMessage)),
            },
          },
          inTurn(),
        );
        const within = trace.setSpan(inTurn(), span);
        const started = performance.now();
        let outcome = 'stopped';
        const chunks = context.with(within, () => model.stream(request, gates, signal)[Symbol.asyncIterator]());
        try {
          for (;;) {
            const next = await context.with(within, () => chunks.next());
            if (next.done === true) return;
            if (next.value.kind === 'completed') {
              span.setAttributes(replyAttributes(next.value.reply));
              outcome = 'completed';
            }
            yield next.value;
          }
        } catch (error) {
          outcome = 'failed';
          recordFailure(span, error);
          throw error;
        } finally {
          metrics.modelDuration.record(performance.now() - started, { provider, outcome }, span);
          span.end();
          void Promise.resolve(chunks.return?.()).catch(() => undefined);
        }
      },
    };
  }

  /** The tools with a span around every execution. */
  tools(tools: Tools): Tools {
    return {
      visible: () => tools.visible(),
      lookup: (name) => tools.lookup(name),
      validate: (tool, args) => tools.validate(tool, args),
      execute: async (invocation: ToolInvocation, signal) => {
        const { name, plugin } = invocation.tool;
        const span = tracer().startSpan(
          `execute_tool ${name}`,
          {
            attributes: {
              'gen_ai.operation.name': 'execute_tool',
              'gen_ai.tool.name': name,
              'gen_ai.tool.call.id': invocation.callId,
              [ATTRIBUTES.runId]: invocation.runId,
              ...contentAttribute('gen_ai.tool.call.arguments', () => invocation.arguments),
              ...(plugin === undefined ? {} : { [ATTRIBUTES.plugin]: plugin }),
            },
          },
          this.#within(),
        );
        const started = performance.now();
        const within = trace.setSpan(context.active(), span);
        const execution = await context.with(within, () => tools.execute(invocation, signal));
        const outcome = execution.kind === 'unknown' ? 'unknown' : execution.result.success ? 'succeeded' : 'failed';
        span.setAttribute(ATTRIBUTES.outcome, outcome);
        if (execution.kind === 'result') {
          span.setAttributes(contentAttribute('gen_ai.tool.call.result', () => execution.result.output));
        }
        if (outcome !== 'succeeded') span.setStatus({ code: SpanStatusCode.ERROR });
        span.end();
        metrics.toolDuration.record(performance.now() - started, { tool: name, outcome }, span);
        return execution;
      },
    };
  }

  /** The hooks with a span and metrics for every gate that somebody is asked at; one that nobody is asked at costs neither. */
  hooks(hooks: Hooks): Hooks {
    const observed: Record<string, unknown> = { ...hooks };
    for (const gate of GATES) {
      const hook = hooks[gate] as ((event: unknown, call: unknown) => unknown) | undefined;
      if (hook !== undefined) observed[gate] = (event: unknown, call: unknown) => this.#ask(gate, hook, event, call);
    }
    return observed as Hooks;
  }

  #ask(gate: string, hook: (event: unknown, call: unknown) => unknown, event: unknown, call: unknown): unknown {
    const span = tracer().startSpan(`gate ${gate}`, { attributes: { [ATTRIBUTES.gate]: gate } }, this.#within());
    const started = performance.now();
    const answered = context.with(trace.setSpan(this.#within(), span), () => hook(event, call));
    // Nobody was asked: a span that is never ended is never exported.
    if (!(answered instanceof Promise)) return answered;
    return answered.then(
      (decision: unknown) => {
        finish(gate, span, performance.now() - started, outcomeOf(decision));
        return decision;
      },
      (error: unknown) => {
        recordFailure(span, error);
        finish(gate, span, performance.now() - started, { decision: 'threw' });
        throw error;
      },
    );
  }

  /** What happens in the attempt itself belongs to its open turn; what happens inside something else stays there. */
  #within(): Context {
    const now = context.active();
    return this.#turn !== undefined && trace.getSpan(now) === this.#root ? this.#turn.within : now;
  }
}

/** Name of the span of a turn. */
export function turnSpanName(iteration: number): string {
  return `turn ${iteration}`;
}

function replyAttributes(reply: ModelReply): Attributes {
  const { usage, finishReason } = reply;
  return {
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.response.finish_reasons': [finishReason],
    ...contentAttribute('gen_ai.output.messages', () => [
      {
        role: 'assistant',
        parts: [
          { type: 'text', content: reply.text },
          ...reply.toolCalls.map(({ name, arguments: args }) => ({ type: 'tool_call', name, arguments: args })),
        ],
      },
    ]),
  };
}

function shownMessage(message: Message): unknown {
  return { role: message.role, parts: [{ type: 'text', content: textOf(message) }] };
}

const GATES = [
  'beforeRunStart',
  'onLoop',
  'transformContext',
  'beforeProviderHeaders',
  'beforeProviderRequest',
  'afterProviderResponse',
  'afterModelCall',
  'beforeToolCall',
  'afterToolCall',
] as const satisfies readonly (keyof Hooks)[];

/** Begins the counters that alerts watch: what is counted from nothing has no increase that an alert could see. */
export function beginCounters(): void {
  for (const gate of GATES) metrics.failClosedBlocks.add(0, { gate });
  metrics.leaseLosses.add(0, {});
  metrics.runsExecuting.add(0, {});
}

function outcomeOf(decision: unknown): { decision: string; code?: string } {
  if (typeof decision !== 'object' || decision === null) return { decision: 'none' };
  const { kind, code } = decision as { kind?: unknown; code?: unknown };
  return { decision: String(kind), ...(typeof code === 'string' ? { code } : {}) };
}

function finish(
  gate: string,
  span: Span,
  durationMs: number,
  { decision, code }: { decision: string; code?: string },
): void {
  const attributes: Attributes = { [ATTRIBUTES.decision]: decision };
  if (code !== undefined) attributes[ATTRIBUTES.outcome] = code;
  span.setAttributes(attributes);
  if (decision === 'could_not_ask') span.setStatus({ code: SpanStatusCode.ERROR, message: code ?? decision });
  span.end();
  metrics.gateDuration.record(durationMs, { gate, outcome: code ?? decision }, span);
  metrics.gateDecisions.add(1, { gate, decision });
  if (decision !== 'could_not_ask') return;
  metrics.gateFailures.add(1, { gate, code: code ?? 'gate_unavailable' });
  // Where the act goes on without an answer, the gate answers that nothing changes.
  metrics.failClosedBlocks.add(1, { gate });
}
