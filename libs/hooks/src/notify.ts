import type { GateCall } from '@codedock/domain';
import type { NotificationHook, NotificationName, Notifications } from './gates.js';

/**
 * Tells a hook, if there is one: starts it and goes on. What it returns, throws or rejects with is ignored, and the
 * scratchpad is read-only for it.
 */
export function notify<N extends NotificationName>(
  hook: NotificationHook<N> | undefined,
  event: Notifications[N],
  open: () => GateCall,
): void {
  if (hook !== undefined) start(hook, event, readOnly(open()));
}

/** One notification hook for several: each is started in order, none is awaited, none disturbs another. */
export function composeNotifications<N extends NotificationName>(
  ...hooks: readonly (NotificationHook<N> | undefined)[]
): NotificationHook<N> | undefined {
  const present = hooks.filter((hook) => hook !== undefined);
  if (present.length < 2) return present[0];
  return (event, call) => {
    for (const hook of present) start(hook, event, call);
  };
}

function start<N extends NotificationName>(hook: NotificationHook<N>, event: Notifications[N], call: GateCall): void {
  try {
    Promise.resolve(hook(event, call)).catch(() => undefined);
  } catch {
    // What a notification throws is ignored.
  }
}

function readOnly(call: GateCall): GateCall {
  return {
    site: call.site,
    principal: call.principal,
    signal: call.signal,
    scratchpad: call.scratchpad,
    merge: () => undefined,
    record: (record) => call.record(record),
    get records() {
      return call.records;
    },
    ...(call.loop === undefined ? {} : { loop: call.loop }),
  };
}
