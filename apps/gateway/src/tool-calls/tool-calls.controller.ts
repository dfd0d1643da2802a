import { resolveToolCall as resolve } from '@codedock/runs';
import { Body, Controller, Inject, Param, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { notFound } from '../http/validation.js';
import { noticingBus } from '../runs/plugin-notices.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts, STORE, type Store } from '../tokens.js';
import {
  type ListToolCalls,
  listToolCalls,
  type ResolveToolCall,
  resolveToolCall,
  toolCall,
  toolCallPage,
} from './tool-call.schema.js';

const TAG = 'Tool calls';

/** Tool calls of runs, and a person's word on those whose outcome nobody knows. */
@Controller('v1/tool-calls')
export class ToolCallsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List calls whose outcome is unknown across sessions, newest first',
    tag: TAG,
    scopes: ['runs', 'approvals'],
    query: listToolCalls,
    answers: { 200: { description: 'A page of tool calls.', schema: toolCallPage } },
  })
  async list(@By() { tenantId }: Caller, @Query() { limit, cursor, sessionId, runId }: ListToolCalls) {
    const found = await this.store.toolCalls.unknown({
      tenantId,
      limit: limit + 1,
      ...defined({ before: cursor, sessionId, runId }),
    });
    return toPage(found, limit);
  }

  @Endpoint('GET', ':callId', {
    summary: 'Get a tool call: what was asked for, what became of it',
    tag: TAG,
    scopes: ['runs', 'approvals'],
    answers: { 200: { description: 'The tool call.', schema: toolCall } },
  })
  get(@By() { tenantId }: Caller, @Param('callId') callId: string) {
    return this.store.toolCalls.get(tenantId, callId);
  }

  @Endpoint('POST', ':callId/resolve', {
    summary: 'Say what became of a call whose outcome is unknown; the same word again gets the same answer',
    tag: TAG,
    scopes: ['approvals'],
    body: resolveToolCall,
    answers: { 200: { description: 'The resolved tool call.', schema: toolCall } },
    problems: ['conflict', 'run_ended'],
  })
  async resolve(
    @By() { tenantId, keyId, keyName }: Caller,
    @Param('callId') callId: string,
    @Body() { outcome, output, note }: ResolveToolCall,
  ) {
    const { runId } = await this.store.toolCalls.get(tenantId, callId);
    const run = await this.store.runs.ending(runId);
    if (run === undefined) throw notFound('tool call');
    const ports = { ...this.ports, bus: noticingBus(this.ports.bus, this.hosts, run.principal) };
    return resolve(ports, {
      tenantId,
      callId,
      outcome,
      actor: { id: keyId, name: keyName },
      ...defined({ output, note }),
    });
  }
}
