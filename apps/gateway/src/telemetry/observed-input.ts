import type { Hooks } from '@codedock/hooks';
import { ATTRIBUTES, metrics, recordFailure } from '@codedock/platform';
import { context, type Span, trace } from '@opentelemetry/api';

const GATE = 'beforeInput';

/** The hooks with a span and metrics around `beforeInput`; where nobody is asked it costs neither. */
export function observedInput(hooks: Hooks): Hooks {
  const ask = hooks.beforeInput;
  if (ask === undefined) return hooks;
  // What is counted from nothing has no increase that an alert could see.
  metrics.failClosedBlocks.add(0, { gate: GATE });
  return {
    ...hooks,
    beforeInput(event, call) {
      const span = trace.getTracer('codedock').startSpan(`gate ${GATE}`, { attributes: { [ATTRIBUTES.gate]: GATE } });
      const began = performance.now();
      const answered = context.with(trace.setSpan(context.active(), span), () => ask(event, call));
      // Answered without a question: a span that is never ended is never exported.
      if (!(answered instanceof Promise)) return answered;
      return answered.then(
        (decision) => {
          const code = decision.kind === 'could_not_ask' ? decision.code : undefined;
          finish(span, performance.now() - began, decision.kind, code);
          return decision;
        },
        (error: unknown) => {
          recordFailure(span, error);
          finish(span, performance.now() - began, 'threw', undefined);
          throw error;
        },
      );
    },
  };
}

function finish(span: Span, durationMs: number, decision: string, code: string | undefined): void {
  span.setAttribute(ATTRIBUTES.decision, decision);
  if (code !== undefined) span.setAttribute(ATTRIBUTES.outcome, code);
  span.end();
  metrics.gateDuration.record(durationMs, { gate: GATE, outcome: code ?? decision }, span);
  metrics.gateDecisions.add(1, { gate: GATE, decision });
  if (code === undefined) return;
  metrics.gateFailures.add(1, { gate: GATE, code });
  metrics.failClosedBlocks.add(1, { gate: GATE });
}
