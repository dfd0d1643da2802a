import type { GateCall, HttpHeaders } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { judgeHeaders } from './header-policy.js';

/**
 * The hooks with the header policy laid over the two provider gates that can change headers: what the policy refuses
 * is taken out of the answer and written to the audit, one line per header. Other hooks are passed through; absent
 * hooks stay absent.
 */
export function guardedHeaders(hooks: Hooks): Hooks {
  const { beforeProviderHeaders, beforeProviderRequest, ...others } = hooks;
  return {
    ...others,
    ...(beforeProviderHeaders && {
      async beforeProviderHeaders(event, call) {
        const decision = await beforeProviderHeaders(event, call);
        if (decision.headers === undefined) return decision;
        return { ...decision, headers: judged('beforeProviderHeaders', event.headers, decision.headers, call) };
      },
    }),
    ...(beforeProviderRequest && {
      async beforeProviderRequest(event, call) {
        const decision = await beforeProviderRequest(event, call);
        if (decision.kind !== 'reply' || decision.headers === undefined) return decision;
        return { ...decision, headers: judged('beforeProviderRequest', event.headers, decision.headers, call) };
      },
    }),
  } satisfies Hooks;
}

function judged(gate: string, before: HttpHeaders, asked: HttpHeaders, call: GateCall): HttpHeaders {
  const { headers, refused } = judgeHeaders(before, asked);
  for (const { name, reason } of refused) {
    // The name of a refused header may itself be hostile text.
    const shown = JSON.stringify(name.slice(0, 100));
    call.record({
      gate,
      hook: 'host',
      outcome: 'invalid',
      reason: `header ${shown} refused: ${reason}`,
      startedMs: 0,
      durationMs: 0,
      queueMs: 0,
    });
  }
  return headers;
}
