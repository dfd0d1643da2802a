import { BUILT_IN_TOOLS, type Principal, type ToolDefinition } from '@codedock/domain';
import { Controller, Inject, Query } from '@nestjs/common';
import type { z } from 'zod';
import { DEFAULT_AGENT } from '../agents/read-profiles.js';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { PLUGIN_HOSTS, type PluginHosts } from '../tokens.js';
import { type ListTools, listTools, type tool, toolList } from './tool.schema.js';

type Tool = z.infer<typeof tool>;

/** The tools of the installation: built-in ones, and those that plugins have registered for the asked agent. */
@Controller('v1/tools')
export class ToolsController {
  constructor(@Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts) {}

  @Endpoint('GET', '', {
    summary: 'List tools; a run sees those its profile allows',
    tag: 'Tools',
    scopes: ['runs', 'admin'],
    query: listTools,
    answers: { 200: { description: 'All tools.', schema: toolList } },
  })
  list(@By() { tenantId, keyName }: Caller, @Query() { agent = DEFAULT_AGENT, mode }: ListTools): { items: Tool[] } {
    const principal: Principal = { tenant: tenantId, key: keyName, agent, metadata: {}, ...defined({ mode }) };
    return { items: [...BUILT_IN_TOOLS, ...this.hosts.tools(principal)].map(shownTool) };
  }
}

function shownTool(definition: Omit<ToolDefinition, 'schemaDigest'>): Tool {
  const { name, description, parameters, requiresApproval, effect, timeoutMs, plugin } = definition;
  return { name, description, parameters, requiresApproval, effect, timeoutMs, ...defined({ plugin }) };
}
