import { existsSync, readFileSync } from 'node:fs';
import type { GateCall, JsonObject, ToolExecution } from '@codedock/domain';
import type { PluginHosts } from '@codedock/plugin-bridge';
import { eventually } from '@codedock/testkit';
import { CRASHING, FAULTY_TOOL, type Fault, HANGING } from './faults.js';
import { FAULTY } from './matrix-plugins.js';

/** A place at which the plugin is asked or told something. */
export interface Seam {
  readonly name: string;
  /** What comes of it, in a few words that `expected` knows. `none`: the plugin behaves. */
  decide(hosts: PluginHosts, fault: Fault | 'none'): Promise<string>;
  /** The one right outcome, or several where the order of two events is not fixed. */
  expected(fault: Fault | 'none'): readonly string[];
}

const PASSED = 'az';

const failureCode = (fault: Fault) => (HANGING.has(fault) ? 'gate_timeout' : 'gate_unavailable');

/** On a veto port a plugin that could not be asked is a refusal to go on, by its name. */
const veto = (fault: Fault | 'none') =>
  fault === 'none' || fault === 'slow' ? [PASSED] : [`could not ask: ${failureCode(fault)} by ${FAULTY}`];

/** On a rewrite port it is left out: what came before is kept, and who comes after is asked while there is time. */
const rewrite = (fault: Fault | 'none') => (fault !== 'none' && HANGING.has(fault) ? ['a'] : [PASSED]);

/** Builds the seams; the plugins that behave note events in `heardFile`. */
export function seams(heardFile: string): readonly Seam[] {
  return [
    gate('agent/input', veto, (hosts, call) => hosts.hooks().beforeInput?.({ content: '' }, call)),
    gate('agent/pre-step', veto, (hosts, call) =>
      hosts.hooks().beforeRunStart?.({ systemPrompt: '', hidden: [] }, call),
    ),
    gate('agent/request', rewrite, (hosts, call) =>
      hosts.hooks().transformContext?.({ systemPrompt: '', messages: [] }, call),
    ),
    gate('llm/stream', rewrite, (hosts, call) =>
      hosts.hooks().beforeProviderRequest?.({ headers: {}, body: '{}' }, call),
    ),
    gate('tools/pre-execute', veto, (hosts, call) =>
      hosts
        .hooks()
        .beforeToolCall?.(
          { call: { id: 'c', name: 'shell', arguments: {} }, tool: { requiresApproval: false, effect: 'effectful' } },
          call,
        ),
    ),
    gate('tools/post-execute', rewrite, (hosts, call) =>
      hosts
        .hooks()
        .afterToolCall?.(
          { call: { id: 'c', name: 'shell', arguments: {} }, result: { success: true, output: '' }, n: 1 },
          call,
        ),
    ),
    { name: 'ExecuteTool', decide: executeTool, expected: executed },
    notify(heardFile),
  ];
}

function gate(name: string, expected: Seam['expected'], ask: (hosts: PluginHosts, call: GateCall) => unknown): Seam {
  return {
    name,
    expected,
    async decide(hosts, fault) {
      const decision = (await ask(hosts, gateCall(fault))) as JsonObject;
      return decision['kind'] === 'could_not_ask'
        ? `could not ask: ${decision['code']} by ${decision['by']}`
        : marksOf(decision);
    },
  };
}

/** Who was heard: the marks on whatever field the port is about; the decision itself where it is no plain continuation. */
function marksOf(decision: JsonObject): string {
  const { kind, content, systemPrompt, headers, arguments: args, output } = decision;
  if (!['continue', 'transform', 'reply', 'proceed'].includes(String(kind))) return String(kind);
  const fields = [content, systemPrompt, (headers as JsonObject)?.['x-mark'], (args as JsonObject)?.['mark'], output];
  return String(fields.find((value) => value !== undefined) ?? '');
}

async function executeTool(hosts: PluginHosts, fault: Fault | 'none'): Promise<string> {
  const { principal, site } = gateCall(fault);
  const tool = hosts.tools(principal).find(({ name }) => name === FAULTY_TOOL);
  if (tool === undefined) return 'no such tool';
  const execution = await hosts.executeTool(
    {
      tool,
      ...site,
      runId: 'run',
      turnId: 'turn',
      callId: 'call',
      arguments: {},
      n: 1,
      idempotencyKey: 'key',
      principal,
    } as Parameters<PluginHosts['executeTool']>[0],
    new AbortController().signal,
  );
  return describeExecution(execution);
}

function describeExecution(execution: ToolExecution): string {
  if (execution.kind === 'unknown') return 'unknown';
  return `${execution.source}: ${execution.result.success ? 'success' : 'failure'}`;
}

function executed(fault: Fault | 'none'): readonly string[] {
  if (fault === 'none') return ['tool: success'];
  if (HANGING.has(fault) || CRASHING.has(fault)) return ['unknown'];
  // A plugin that is not started again offers nothing; until that is known here, the host says so.
  if (fault === 'dead') return ['no such tool', 'host: failure'];
  if (fault === 'throw' || fault === 'wrong shape') return ['tool: failure'];
  // Text that is no JSON is text, and a result has no call, type or size of its own to get wrong.
  return ['tool: success'];
}

function notify(heardFile: string): Seam {
  const heard = () => (existsSync(heardFile) ? readFileSync(heardFile, 'utf8').length : 0);
  return {
    name: 'Notify',
    expected: () => ['run goes on, others are told'],
    async decide(hosts, fault) {
      const before = heard();
      const began = performance.now();
      hosts.hooks().onRunStart?.({ runId: `run-${before}`, sessionId: 'session' } as never, gateCall(fault));
      if (performance.now() - began > 50) return 'the run waited';
      await eventually(() => heard() > before, { what: 'the event at a plugin that behaves' });
      return 'run goes on, others are told';
    },
  };
}

function gateCall(fault: Fault | 'none'): GateCall {
  const records: GateCall['records'][number][] = [];
  return {
    site: {
      tenantId: 'tenant',
      sessionId: 'session',
      runId: `run-${Math.floor(performance.now() * 1_000)}`,
      turnId: 'turn',
    },
    principal: { tenant: 'tenant', key: 'matrix', agent: 'default', metadata: { fault } },
    signal: new AbortController().signal,
    scratchpad: {},
    merge: () => undefined,
    record: (record) => void records.push(record),
    records,
  };
}
