import { compose } from './compose.js';
import type { GateHook, GateName, Hooks, NotificationHook, NotificationName } from './gates.js';
import { composeNotifications } from './notify.js';
import { GATE_NAMES, NOTIFICATION_NAMES } from './policy.js';

/**
 * Joins two records of hooks field by field: `first` is asked before `next` and `next` sees what `first` changed.
 * Associative; `{}` is the identity. A field that neither has stays absent.
 */
export function chain(first: Hooks, next: Hooks): Hooks {
  const joined: Record<string, unknown> = {};
  for (const gate of GATE_NAMES) {
    const hook = compose<GateName>(gate, first[gate] as GateHook<GateName>, next[gate] as GateHook<GateName>);
    if (hook !== undefined) joined[gate] = hook;
  }
  for (const name of NOTIFICATION_NAMES) {
    const hook = composeNotifications(
      first[name] as NotificationHook<NotificationName>,
      next[name] as NotificationHook<NotificationName>,
    );
    if (hook !== undefined) joined[name] = hook;
  }
  return joined as Hooks;
}
