import type { LedgerEvent, LiveBus, Principal } from '@codedock/domain';
import { NOTIFIED_BY_HOOKS, type PluginHosts } from '@codedock/plugin-bridge';

/**
 * The bus of one use case: what it commits is pushed as always, then told to the plugins that subscribe to it. A run's end
 * is told by `onRunEnd`.
 */
export function noticingBus(bus: LiveBus, hosts: Pick<PluginHosts, 'notify'>, principal: Principal): LiveBus {
  return {
    publish(push) {
      bus.publish(push);
      for (const event of push.events ?? []) if (!NOTIFIED_BY_HOOKS.has(event.type)) tell(hosts, principal, event);
    },
    publishCancel: (push) => bus.publishCancel(push),
    subscribe: (sessionId, onPush) => bus.subscribe(sessionId, onPush),
    subscribeCancels: (onCancel) => bus.subscribeCancels(onCancel),
    onReconnected: (listener) => bus.onReconnected(listener),
    close: () => bus.close(),
  };
}

function tell(hosts: Pick<PluginHosts, 'notify'>, principal: Principal, event: LedgerEvent): void {
  hosts.notify({
    type: event.type,
    eventId: event.eventId,
    seq: event.seq,
    payload: event.payload,
    principal,
    site: {
      tenantId: principal.tenant,
      sessionId: event.sessionId,
      ...(event.runId === undefined ? {} : { runId: event.runId }),
      ...(event.turnId === undefined ? {} : { turnId: event.turnId }),
    },
  });
}
