import type { GateCall, LedgerEventType, TimerClock } from '@codedock/domain';
import { isTerminal, type RunStatus, TERMINAL_EVENTS } from '@codedock/domain';
import {
  type GateEvent,
  type GateHook,
  guard,
  type Hooks,
  type NotificationHook,
  type RunEndNotification,
} from '@codedock/hooks';
import type { Port } from '@codedock/proto';
import { portMappings } from '../mapping/index.js';
import type { MatchSubject } from '../ports/match.js';
import { type PortGates, portTable } from '../ports/port-table.js';
import type { ChainMemory } from './chain-memory.js';
import { holds } from './chain-view.js';
import { chainFailure, couldNotAsk, decisions, UNASKED } from './decisions.js';
import { type GateAsker, hostRecord } from './gate-asker.js';
import type { NotificationQueue } from './notification-queue.js';
import type { ReplicaSet } from './replica-set.js';
import { budgetOf, concerns, failsClosed, type PortState } from './standing.js';

/** What the remote hooks are made of. */
export interface RemoteParts {
  readonly replicas: ReplicaSet;
  readonly asker: GateAsker;
  readonly memory: ChainMemory;
  readonly clock: TimerClock;
  readonly gateTimeoutMs: number;
  readonly notifications: NotificationQueue;
}

/**
 * Hooks that ask the plugin-hosts. Every field is present for good, because subscriptions change while hooks are chained
 * once; a gate nobody is asked at answers synchronously, without a call.
 */
export function remoteHooks(parts: RemoteParts): Hooks {
  return {
    beforeInput: gateHook(parts, 'agent/input'),
    beforeRunStart: gateHook(parts, 'agent/pre-step'),
    transformContext: gateHook(parts, 'agent/request'),
    beforeProviderRequest: gateHook(parts, 'llm/stream'),
    beforeToolCall: gateHook(parts, 'tools/pre-execute', (event) => event.call.name),
    afterToolCall: gateHook(parts, 'tools/post-execute', (event) => event.call.name),
    onRunStart: notification(parts, () => ['run.started', {}]),
    onTurnStart: notification(parts, ({ resumed, iteration }) => [
      resumed ? 'turn.resumed' : 'turn.started',
      { iteration },
    ]),
    onToolExecutionStart: notification(parts, ({ call, n }) => [
      'tool.execution_started',
      { callId: call.id, tool: call.name, n, arguments: call.arguments },
    ]),
    onTurnEnd: notification(parts, ({ iteration }) => ['turn.completed', { iteration }]),
    onRunEnd: notification(parts, (event) => [terminalEvent(event), endPayload(event)]),
  };
}

function gateHook<P extends Port>(
  parts: RemoteParts,
  port: P,
  toolOf?: (event: GateEvent<PortGates[P]>) => string,
): GateHook<PortGates[P]> {
  type Event = GateEvent<PortGates[P]>;
  const { replicas, memory, gateTimeoutMs, clock } = parts;
  const gate = portTable[port].gate as PortGates[P];
  const nobody = UNASKED[port];
  const stateNow = (): PortState | undefined => replicas.standing.gates[port];
  const subjectOf = (event: Event, call: GateCall): MatchSubject => {
    const { tenant, agent, mode } = call.principal;
    return toolOf === undefined
      ? { tenant, agent, mode: mode ?? '' }
      : { tenant, agent, mode: mode ?? '', tool: toolOf(event) };
  };
  const ask: GateHook<PortGates[P]> = async (event, call) => {
    const state = stateNow();
    if (state === undefined) return nobody;
    const subject = subjectOf(event, call);
    const budgetMs = budgetOf(state, subject, gateTimeoutMs);
    const payload = portMappings[port].encode(event, call);
    const started = clock.now();
    const asked = await parts.asker.ask({ port, state, subject, payload, budgetMs }, call);
    if (asked.kind === 'answered') return decisions[port](asked, event, { site: call.site, clock });
    if (asked.kind === 'failed') return chainFailure(port, asked.failure);
    call.record(hostRecord(port, asked.outcome, asked.reason, clock.now() - started));
    const keeps = portTable[port].class === 'rewrite' && !failsClosed(memory, state, subject);
    return keeps ? nobody : couldNotAsk(asked);
  };
  const guarded = guard(gate, ask, {
    clock,
    budgetMs: (event: Event, call: GateCall) => {
      const state = stateNow();
      return state === undefined ? gateTimeoutMs : budgetOf(state, subjectOf(event, call), gateTimeoutMs);
    },
    failClosed: (event: Event, call: GateCall) => {
      const state = stateNow();
      return state === undefined || failsClosed(memory, state, subjectOf(event, call));
    },
  });
  const show = async (event: Event, call: GateCall, subject: MatchSubject): Promise<void> => {
    // Only when the gate has gone on: encoding costs time too.
    await Promise.resolve();
    const payload = portMappings[port].encode(event, call);
    await parts.asker.show({ port, subject, payload, budgetMs: gateTimeoutMs }, call);
  };
  return (event, call) => {
    const state = stateNow();
    if (state === undefined || !concerns(state, () => subjectOf(event, call))) {
      const shadows = replicas.standing.shadows[port];
      if (shadows !== undefined) {
        const subject = subjectOf(event, call);
        if (shadows.some((one) => holds(one.matches, subject))) show(event, call, subject).catch(() => undefined);
      }
      return nobody;
    }
    return guarded(event, call);
  };
}

function notification<N extends 'onRunStart' | 'onTurnStart' | 'onToolExecutionStart' | 'onTurnEnd' | 'onRunEnd'>(
  parts: RemoteParts,
  eventOf: (event: Parameters<NotificationHook<N>>[0]) => readonly [LedgerEventType, object],
): NotificationHook<N> {
  return (event, call) => {
    const [type, payload] = eventOf(event);
    parts.notifications.send({
      type,
      payload,
      site: call.site,
      principal: call.principal,
      scratchpad: call.scratchpad,
    });
  };
}

function terminalEvent({ status }: RunEndNotification): LedgerEventType {
  return isTerminal(status as RunStatus) ? TERMINAL_EVENTS[status as keyof typeof TERMINAL_EVENTS] : 'run.failed';
}

function endPayload({ stopReason, message }: RunEndNotification): object {
  return message === undefined ? { stopReason } : { stopReason, message };
}
