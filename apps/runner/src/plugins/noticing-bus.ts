import type { JsonObject, LedgerEvent, LiveBus, Principal, SessionPush } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import type { PluginHosts } from '@codedock/plugin-bridge';

/** Whose events are told to plugins. */
export interface NoticedRun {
  readonly tenantId: string;
  readonly runId: string;
  readonly principal: Principal;
  /** The plugins' bag as it is now. */
  readonly scratchpad: () => JsonObject;
}

/**
 * The gates among the plugins' hooks. What happened they are told from what is committed: in the order of the ledger, with
 * its payloads, and nothing that was not stored in the end.
 */
export function gatesOf(hooks: Hooks): Hooks {
  const { onRunStart, onTurnStart, onToolExecutionStart, onTurnEnd, onRunEnd, ...gates } = hooks;
  return gates;
}

/**
 * The bus of one run's use cases: what was committed is pushed as always, and handed to the plugins that subscribe to
 * it. Events of other runs in the same transaction are pushed only: whoever executes those knows their principal.
 */
export function noticingBus(bus: LiveBus, hosts: Pick<PluginHosts, 'notify'>, run: NoticedRun): LiveBus {
  return listenedBus(bus, (push) => {
    for (const event of push.events ?? []) if (event.runId === run.runId) tell(hosts, run, event);
  });
}

/** The bus with a listener to what is published through it, after the push. */
export function listenedBus(bus: LiveBus, heard: (push: SessionPush) => void): LiveBus {
  return {
    publish(push) {
      bus.publish(push);
      heard(push);
    },
    publishCancel: (push) => bus.publishCancel(push),
    subscribe: (sessionId, onPush) => bus.subscribe(sessionId, onPush),
    subscribeCancels: (onCancel) => bus.subscribeCancels(onCancel),
    onReconnected: (listener) => bus.onReconnected(listener),
    close: () => bus.close(),
  };
}

/** Hands one committed event of a run to the plugins that subscribe to it. */
export function tell(hosts: Pick<PluginHosts, 'notify'>, run: NoticedRun, event: LedgerEvent): void {
  hosts.notify({
    type: event.type,
    eventId: event.eventId,
    seq: event.seq,
    payload: event.payload,
    principal: run.principal,
    scratchpad: run.scratchpad(),
    site: {
      tenantId: run.tenantId,
      sessionId: event.sessionId,
      runId: run.runId,
      ...(event.turnId === undefined ? {} : { turnId: event.turnId }),
      ...(event.attempt === undefined ? {} : { attempt: event.attempt }),
    },
  });
}
