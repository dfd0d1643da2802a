import { failureCodeOf, type HookOutcome } from '@codedock/domain';
import { ATTRIBUTES, isTraced, withSpan } from '@codedock/platform';
import type { gate, Port } from '@codedock/proto';
import { type Span, SpanStatusCode } from '@opentelemetry/api';
import type { GateEndpoint } from './gate-endpoint.js';

/** What was asked, and what the record says of it; no outcome = the question was given up. */
interface Asked<T> {
  readonly result: T;
  readonly outcome: Pick<gate.Outcome, 'outcome' | 'reason' | 'queueMs'> | undefined;
}

/** Asks one plugin; inside a trace in a span of its own, which the plugin's process goes on from. */
export async function inQuestionSpan<T>(
  { plugin, identity }: Pick<GateEndpoint, 'plugin' | 'identity'>,
  port: Port,
  ask: () => Promise<Asked<T>>,
): Promise<T> {
  if (!isTraced()) return (await ask()).result;
  const attributes = {
    [ATTRIBUTES.plugin]: plugin,
    [ATTRIBUTES.port]: port,
    [ATTRIBUTES.pluginGeneration]: identity.generation,
  };
  return withSpan(`plugin ${plugin} ${port}`, { attributes }, async (span) => {
    const { result, outcome } = await ask();
    describe(span, outcome);
    return result;
  });
}

function describe(span: Span, asked: Asked<unknown>['outcome']): void {
  span.setAttribute(ATTRIBUTES.outcome, asked?.outcome ?? 'cancelled');
  if (asked === undefined) return;
  if (asked.queueMs > 0) span.setAttribute(ATTRIBUTES.queueMs, asked.queueMs);
  if (isFailure(asked.outcome)) span.setStatus({ code: SpanStatusCode.ERROR, message: asked.outcome });
}

/** A plugin in shadow mode fails nothing, but its span does. */
function isFailure(outcome: string): boolean {
  const decided = outcome.startsWith('shadow:') ? outcome.slice('shadow:'.length) : outcome;
  return failureCodeOf(decided as HookOutcome) !== undefined;
}
