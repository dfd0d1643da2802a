import type { Model, ModelGates, ModelRequest, ToolInvocation, Tools, Turn } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { ATTRIBUTES, metrics, recordFailure } from '@codedock/platform';
import { type Attributes, type Context, context, type Span, SpanKind, trace } from '@opentelemetry/api';

const tracer = () => trace.getTracer('codedock');

/**
 * Spans and metrics of one attempt: turns inside the run, and inside a turn its model calls, tool executions and gates.
 * Without telemetry every span is a no-op.
 */
export class RunSpans {
  #turn: { readonly id: string; readonly span: Span; readonly within: Context } | undefined;

  /** For `ExecutionPorts.onTurn`. */
  onTurn(turn: Turn, phase: 'started' | 'completed'): void {
    if (phase === 'completed' || this.#turn?.id !== turn.id) this.end();
    if (phase === 'completed' || this.#turn !== undefined) return;
    const span = tracer().startSpan(`turn ${turn.iteration}`, {}, context.active());
    this.#turn = { id: turn.id, span, within: trace.setSpan(context.active(), span) };
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
              const { usage, finishReason } = next.value.reply;
              span.setAttributes({
                'gen_ai.usage.input_tokens': usage.inputTokens,
                'gen_ai.usage.output_tokens': usage.outputTokens,
                'gen_ai.response.finish_reasons': [finishReason],
              });
              outcome = 'completed';
            }
            yield next.value;
          }
        } catch (error) {
          outcome = 'failed';
          recordFailure(span, error);
          throw error;
        } finally {
          metrics.modelDuration.record(performance.now() - started, { provider, outcome });
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
              ...(plugin === undefined ? {} : { [ATTRIBUTES.plugin]: plugin }),
            },
          },
          this.#within(),
        );
        const started = performance.now();
        const within = trace.setSpan(this.#within(), span);
        const execution = await context.with(within, () => tools.execute(invocation, signal));
        const outcome = execution.kind === 'unknown' ? 'unknown' : execution.result.success ? 'succeeded' : 'failed';
        span.setAttribute(ATTRIBUTES.outcome, outcome);
        span.end();
        metrics.toolDuration.record(performance.now() - started, { tool: name, outcome });
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

  #within(): Context {
    return this.#turn?.within ?? context.active();
  }
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

/** Gates whose failure stops the act. */
const VETO: ReadonlySet<string> = new Set(['beforeRunStart', 'beforeToolCall']);

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
  span.end();
  metrics.gateDuration.record(durationMs, { gate, outcome: code ?? decision });
  metrics.gateDecisions.add(1, { gate, decision });
  if (decision !== 'could_not_ask') return;
  metrics.gateFailures.add(1, { gate, code: code ?? 'gate_unavailable' });
  if (VETO.has(gate)) metrics.failClosedBlocks.add(1, { gate });
}
