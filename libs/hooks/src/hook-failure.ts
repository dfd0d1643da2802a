import { AppError, isAppError } from '@codedock/domain';
import type { GateHook, GateName, Hooks } from './gates.js';
import { GATE_NAMES } from './policy.js';

/**
 * What an in-process hook threw, as the `hook_error` that ends the run. Names the gate and, when known, the hook; the
 * thing thrown is its cause. A `hook_error` is returned as it is, so that the innermost name wins.
 */
export function hookFailure(gate: GateName, cause: unknown, hook?: string): AppError {
  if (isAppError(cause, 'hook_error')) return cause;
  const subject = hook === undefined ? 'A hook' : `The hook ${hook}`;
  return new AppError('hook_error', `${subject} failed at ${gate}; what it threw is in the logs.`, {
    cause,
    extra: hook === undefined ? { gate } : { gate, hook },
  });
}

/** The name of the hook that failed, when it is known. */
export function failedHookOf(error: unknown): string | undefined {
  const hook = isAppError(error, 'hook_error') ? error.extra?.['hook'] : undefined;
  return typeof hook === 'string' ? hook : undefined;
}

/** The same hooks, whose failures carry this name. Notifications are left alone: what they throw is ignored. */
export function named(name: string, hooks: Hooks): Hooks {
  const wrapped: Record<string, unknown> = { ...hooks };
  for (const gate of GATE_NAMES) {
    const hook = hooks[gate] as GateHook<GateName> | undefined;
    if (hook !== undefined) wrapped[gate] = namedHook(name, gate, hook);
  }
  return wrapped as Hooks;
}

function namedHook(name: string, gate: GateName, hook: GateHook<GateName>): GateHook<GateName> {
  return async (event, call) => {
    try {
      return await hook(event, call);
    } catch (error) {
      throw call.signal.aborted ? error : hookFailure(gate, error, name);
    }
  };
}
