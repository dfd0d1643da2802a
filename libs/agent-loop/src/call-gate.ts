import {
  type AskReason,
  type CallSettled,
  type GatedCall,
  type JsonValue,
  jsonEqual,
  sealDigest,
  type ToolCall,
  type ToolDefinition,
  wellFormedJson,
  wellFormedText,
} from '@codedock/domain';
import { askGate, endedByFailure, openGate } from './ask-gate.js';
import { checkedCall } from './call-check.js';
import { type CallStanding, type Dispatch, settle } from './dispatch.js';
import { ending } from './loop-result.js';
import { failedResult, repairedResult } from './tool-results.js';

/** What the gate said about a call: how it is settled, or what it may run with and why a person is asked first. */
export type CallDecision =
  | (Omit<CallSettled, 'call'> & { readonly kind: 'settle'; readonly call: ToolCall })
  | { readonly kind: 'pass'; readonly args: JsonValue; readonly reasons: readonly AskReason[] };

/** Takes a call through all its gates: lookup, validation, permission, hook, once more if it changed, approval. */
export async function gateCall(dispatch: Dispatch, call: ToolCall): Promise<CallStanding> {
  const { tool, problem } = checkedCall(dispatch, call, call.arguments);
  if (problem !== undefined) return fail(dispatch, call, problem);
  const gateVersion = dispatch.attempt.ports.gateVersionOf(tool.name);
  const answer = await callDecision(dispatch, call, tool);
  if (answer.kind === 'settle') return settle(dispatch, answer.call, answer);
  const gated = { ...call, arguments: answer.args };
  const reasons = [...answer.reasons, ...toolReason(dispatch, tool)];
  if (reasons.length > 0 && dispatch.attempt.snapshot.config.approvalMode === 'never')
    return denyUnheard(dispatch, gated, reasons);
  return passOn(dispatch, gated, tool, { gateVersion, reasons });
}

/**
 * Asks the gate again about a call that a person has approved, because the policies that would be asked are no longer
 * those he knew of. Proceed, or ask, with the same arguments: the approval stands. Other arguments: a new approval.
 */
export async function revalidateCall(dispatch: Dispatch, call: ToolCall, tool: ToolDefinition): Promise<CallStanding> {
  const gateVersion = dispatch.attempt.ports.gateVersionOf(tool.name);
  const answer = await callDecision(dispatch, call, tool);
  if (answer.kind === 'settle') return settle(dispatch, answer.call, answer);
  if (!jsonEqual(answer.args, call.arguments)) {
    const changed = { by: 'host', reason: 'A policy changed the arguments after they had been approved.' };
    const reasons = [...answer.reasons, ...toolReason(dispatch, tool)];
    return passOn(dispatch, { ...call, arguments: answer.args }, tool, {
      gateVersion,
      reasons: reasons.length === 0 ? [changed] : reasons,
    });
  }
  const reasons = call.gated?.reasons ?? answer.reasons;
  const gated: GatedCall = { digest: seal(dispatch, call, tool), gateVersion, decision: 'ask', reasons };
  recordRevalidation(dispatch, call);
  dispatch.attempt.note(dispatch.attempt.ports.ledger.callGated(call, gated));
  return { kind: 'ready', call: { ...call, gated }, tool, gated };
}

function recordRevalidation({ attempt, turn, bounds }: Dispatch, call: ToolCall): void {
  openGate(attempt, { turnId: turn.id, callId: call.id }, bounds.signal).record({
    gate: 'beforeToolCall',
    hook: 'host',
    outcome: 'continued',
    reason: 'revalidated: the approval stands under the policies that are asked now',
    startedMs: 0,
    durationMs: 0,
    queueMs: 0,
  });
}

/** A call whose gates have answered before: their answer is used again while seal and gate version still hold. */
export async function confirmCall(dispatch: Dispatch, call: ToolCall): Promise<CallStanding> {
  const { gated } = call;
  const tool = dispatch.attempt.ports.tools.lookup(call.name);
  if (gated === undefined || tool === undefined) return gateCall(dispatch, call);
  const sealed = gated.digest === seal(dispatch, call, tool);
  if (sealed && gated.gateVersion === dispatch.attempt.ports.gateVersionOf(call.name)) {
    const asks = gated.decision === 'ask' && call.state !== 'approved';
    return asks
      ? { kind: 'asks', asking: { call, gated, reasons: gated.reasons } }
      : { kind: 'ready', call, tool, gated };
  }
  return sealed && call.state === 'approved' ? revalidateCall(dispatch, call, tool) : gateCall(dispatch, call);
}

/** Fails a call before its execution, in the host's name. */
export function fail(dispatch: Dispatch, call: ToolCall, problem: string): CallStanding {
  return settle(dispatch, call, { state: 'failed', result: failedResult(problem), source: 'host' });
}

/** Asks `beforeToolCall`. Arguments it changed are checked once more. An abort, or a hook that broke, leaves the loop. */
export async function callDecision(dispatch: Dispatch, call: ToolCall, tool: ToolDefinition): Promise<CallDecision> {
  const decision = await decisionOn(dispatch, call, tool);
  switch (decision.kind) {
    case 'block': {
      const result = failedResult(`Blocked: ${decision.reason}`);
      return { kind: 'settle', call, state: 'blocked', result, source: 'hook', ...byOf(decision.by) };
    }
    case 'skip': {
      const result = repairedResult({ success: true, output: decision.result });
      return { kind: 'settle', call, state: 'skipped', result, source: 'hook', ...byOf(decision.by) };
    }
    case 'abort':
      throw ending('aborted_by_hook', decision.reason, decision.by);
    case 'could_not_ask': {
      const problem = `Not executed: the host could not ask the policy (${decision.code}). ${decision.reason}`;
      return failure(call, problem, decision.by ?? 'host');
    }
    case 'proceed':
    case 'ask': {
      const args = decision.arguments === undefined ? call.arguments : wellFormedJson(decision.arguments);
      if (!jsonEqual(args, call.arguments)) {
        const { problem } = checkedCall(dispatch, call, args);
        if (problem !== undefined) {
          return failure({ ...call, arguments: args }, `Not executed: a policy changed the call. ${problem}`, 'host');
        }
      }
      const reasons = decision.kind === 'ask' ? decision.reasons.map(repairedReason) : [];
      if (decision.kind === 'ask' && reasons.length === 0) reasons.push({ by: 'hook', reason: 'A policy asks.' });
      return { kind: 'pass', args, reasons };
    }
  }
}

function failure(call: ToolCall, problem: string, by: string): CallDecision {
  return { kind: 'settle', call, state: 'failed', result: failedResult(problem), source: 'host', by };
}

function byOf(by: string | undefined) {
  return by === undefined ? {} : { by };
}

async function decisionOn(dispatch: Dispatch, call: ToolCall, tool: ToolDefinition) {
  const event = {
    call: { id: call.id, name: call.name, arguments: call.arguments },
    tool: {
      requiresApproval: tool.requiresApproval,
      effect: tool.effect,
      ...(tool.plugin === undefined ? {} : { plugin: tool.plugin }),
    },
  };
  const place = { turnId: dispatch.turn.id, callId: call.id };
  try {
    const decision = await askGate(dispatch.attempt, 'beforeToolCall', event, place, dispatch.bounds);
    return decision ?? ({ kind: 'proceed' } as const);
  } catch (error) {
    dispatch.bounds.check();
    throw endedByFailure(error);
  }
}

function passOn(
  dispatch: Dispatch,
  call: ToolCall,
  tool: ToolDefinition,
  { gateVersion, reasons }: Pick<GatedCall, 'gateVersion' | 'reasons'>,
): CallStanding {
  const decision = reasons.length === 0 ? 'proceed' : 'ask';
  const gated: GatedCall = { digest: seal(dispatch, call, tool), gateVersion, decision, reasons };
  // An approval that covered other arguments, or another schema, covers nothing any more: a runner that dies before the
  // new approval is stored must not leave the call approved.
  const voided = decision === 'ask' && call.state === 'approved';
  const judged: ToolCall = { ...call, gated, ...(voided && { state: 'awaiting_approval' }) };
  dispatch.attempt.note(dispatch.attempt.ports.ledger.callGated(judged, gated));
  return decision === 'ask'
    ? { kind: 'asks', asking: { call: judged, gated, reasons } }
    : { kind: 'ready', call: judged, tool, gated };
}

function denyUnheard(dispatch: Dispatch, call: ToolCall, reasons: readonly AskReason[]): CallStanding {
  const why = reasons.map(({ by, reason }) => `${by}: ${reason}`).join('; ');
  const result = failedResult(`Denied: this run asks nobody for approval. Approval was wanted by ${why}`);
  // A call that was approved cannot be denied any more, only not be executed.
  return settle(dispatch, call, { state: call.state === 'approved' ? 'failed' : 'denied', result, source: 'host' });
}

function toolReason({ attempt }: Dispatch, tool: ToolDefinition): AskReason[] {
  const { config, grants = [] } = attempt.snapshot;
  if (!tool.requiresApproval || config.approvalMode === 'auto') return [];
  if (grants.some((grant) => grant.tool === tool.name && grant.schemaDigest === tool.schemaDigest)) return [];
  return [{ by: 'tool', reason: `The tool ${tool.name} requires approval.` }];
}

export function seal({ attempt }: Dispatch, call: ToolCall, tool: ToolDefinition): string {
  return sealDigest(attempt.ports.digest, {
    tool: call.name,
    schemaDigest: tool.schemaDigest,
    arguments: call.arguments,
  });
}

function repairedReason({ by, reason }: AskReason): AskReason {
  return { by: wellFormedText(by), reason: wellFormedText(reason) };
}
