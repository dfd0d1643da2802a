import { BUILT_IN_TOOLS } from '@codedock/domain';
import type { gate } from '@codedock/proto';
import { Controller, Inject } from '@nestjs/common';
import type { z } from 'zod';
import { Endpoint } from '../http/endpoint.js';
import { PLUGIN_HOSTS, type PluginHosts } from '../plugins/plugin-hosts.js';
import { tool, toolList } from './tool.schema.js';

type Tool = z.infer<typeof tool>;

/** The tools of the installation: built-in ones, and those that plugins have registered. */
@Controller('v1/tools')
export class ToolsController {
  constructor(@Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts) {}

  @Endpoint('GET', '', {
    summary: 'List tools; a run sees those its profile allows',
    tag: 'Tools',
    scopes: ['runs', 'admin'],
    answers: { 200: { description: 'All tools.', schema: toolList } },
  })
  list(): { items: Tool[] } {
    const builtIn = BUILT_IN_TOOLS.map((each) => ({ ...each, live: true }));
    const byName = new Map<string, Tool>();
    for (const { tools } of this.hosts.snapshots()) {
      for (const each of tools) {
        const known = byName.get(each.name);
        if (known === undefined || (each.live && !known.live)) byName.set(each.name, pluginTool(each));
      }
    }
    return { items: [...builtIn, ...byName.values()] };
  }
}

function pluginTool(snapshot: gate.ToolSnapshot): Tool {
  const effect = tool.shape.effect.safeParse(snapshot.effectClass);
  return {
    name: snapshot.name,
    description: snapshot.prompt,
    parameters: JSON.parse(Buffer.from(snapshot.parametersSchema).toString('utf8')),
    requiresApproval: snapshot.requiresApproval,
    effect: effect.success ? effect.data : 'effectful',
    timeoutMs: snapshot.timeoutMs,
    plugin: snapshot.plugin,
    live: snapshot.live,
  };
}
