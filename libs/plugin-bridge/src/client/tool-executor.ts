import {
  type JsonValue,
  type ToolExecution,
  type ToolInvocation,
  wellFormedJson,
  wellFormedText,
} from '@codedock/domain';
import { type gate, maxPayloadBytes } from '@codedock/proto';
import { status } from '@grpc/grpc-js';
import { InvalidAnswer } from '../ports/invalid-answer.js';
import { readJson } from '../ports/read-json.js';
import type { GateAsker } from './gate-asker.js';
import type { Replica } from './replica.js';
import type { ReplicaSet } from './replica-set.js';
import { callOnce } from './unary.js';

// The host ends an execution at the tool's limit and says so; this only catches a host that does not.
const DEADLINE_SLACK_MS = 1_000;

/** Executes plugin tools over the wire. */
export class ToolExecutor {
  constructor(
    private readonly replicas: ReplicaSet,
    private readonly asker: GateAsker,
  ) {}

  /**
   * Executes once; never rejects. `unknown` when the request may have been sent and no outcome came back (died, timed
   * out, cancelled); a failed result of source `host` when it certainly was not executed.
   */
  async execute(invocation: ToolInvocation, signal: AbortSignal): Promise<ToolExecution> {
    const { tool } = invocation;
    if (signal.aborted) return notExecuted('The call was cancelled before it was sent.');
    const args = Buffer.from(JSON.stringify(invocation.arguments ?? {}));
    if (args.length > maxPayloadBytes) {
      return notExecuted(`The arguments have ${args.length} bytes; a plugin takes at most ${maxPayloadBytes}.`);
    }
    const tried = new Set<Replica>();
    let why = `No plugin-host offers the tool ${tool.name} now.`;
    for (;;) {
      const replica = this.replicas.forTool(tool.name, tried);
      if (replica === undefined) return notExecuted(why);
      tried.add(replica);
      const result = await this.send(replica, invocation, args, signal);
      if (result.kind === 'answered') {
        return executionOf(result.value, tool.name, tool.plugin);
      }
      const { code, details } = result.error;
      const refused =
        code === status.FAILED_PRECONDITION || code === status.UNAUTHENTICATED || code === status.NOT_FOUND;
      if (!refused && !result.unsent) {
        return { kind: 'unknown', error: `The plugin-host gave no outcome of ${tool.name}: ${details.slice(0, 200)}` };
      }
      if (signal.aborted) return notExecuted('The call was cancelled before it was sent.');
      why = `The plugin-host could not be asked to execute ${tool.name}: ${details.slice(0, 200)}`;
    }
  }

  private async send(replica: Replica, invocation: ToolInvocation, args: Buffer, signal: AbortSignal) {
    const { tool, tenantId, sessionId, runId, turnId, callId } = invocation;
    const site = { tenantId, sessionId, runId, turnId, callId };
    const request: gate.ToolRequest = {
      input: {
        sessionId,
        runId,
        turnId,
        callId,
        name: tool.name,
        arguments: args,
        idempotencyKey: invocation.idempotencyKey,
        attempt: invocation.n,
        principal: this.asker.principalBytes(invocation.principal),
        capability: this.asker.capabilityBytes({ site, principal: invocation.principal }, callId, tool.timeoutMs),
      },
      timeoutMs: tool.timeoutMs,
      minChainEpoch: this.replicas.epoch,
    };
    const { client, metadata, address } = replica;
    replica.inFlight += 1;
    const result = await callOnce<gate.ToolRequest, gate.ToolAnswer>(
      client.executeTool.bind(client),
      request,
      metadata,
      tool.timeoutMs + DEADLINE_SLACK_MS,
      signal,
      address.target,
    );
    replica.inFlight -= 1;
    return result;
  }
}

function notExecuted(error: string): ToolExecution {
  return { kind: 'result', source: 'host', result: { success: false, output: null, error } };
}

function executionOf(answer: gate.ToolAnswer, tool: string, plugin: string | undefined): ToolExecution {
  const who = answer.plugin || plugin || 'unknown';
  const detail = answer.result?.error ? `: ${answer.result.error}` : '.';
  switch (answer.outcome) {
    case 'answered':
      return answer.result === undefined
        ? { kind: 'unknown', error: `The plugin ${who} answered ${tool} without a result.` }
        : { kind: 'result', source: 'tool', result: resultOf(answer.result, tool) };
    case 'not_sent':
      return notExecuted(`The plugin ${who} could not be asked to execute ${tool}${detail}`);
    case 'died':
      return { kind: 'unknown', error: `The plugin ${who} died while it executed ${tool}${detail}` };
    case 'timeout':
      return { kind: 'unknown', error: `The plugin ${who} did not finish ${tool} in time${detail}` };
    case 'cancelled':
      return { kind: 'unknown', error: `The execution of ${tool} by ${who} was cancelled${detail}` };
    default:
      return { kind: 'unknown', error: `The plugin-host named no known outcome of ${tool}.` };
  }
}

function resultOf(result: NonNullable<gate.ToolAnswer['result']>, tool: string) {
  const error = wellFormedText(result.error);
  try {
    const output = outputOf(result.output);
    if (result.success) return { success: true, output };
    return { success: false, output, error: error === '' ? `The tool ${tool} failed without saying why.` : error };
  } catch (thrown) {
    if (!(thrown instanceof InvalidAnswer)) throw thrown;
    return { success: false, output: null, error: `The tool ${tool} gave an unusable output: ${thrown.message}.` };
  }
}

// JSON where it is JSON, else plain text.
function outputOf(bytes: Buffer): JsonValue {
  if (bytes.length === 0) return null;
  try {
    return wellFormedJson(readJson(bytes, 'output').value);
  } catch (thrown) {
    if (!(thrown instanceof InvalidAnswer) || thrown.message !== 'output is not JSON') throw thrown;
    return wellFormedText(bytes.toString('utf8'));
  }
}
