import type { CompiledPlugin } from '../compiled-plugin.js';
import type { Host } from '../host/host.js';

/** A tool can be executed as soon as the host knows of it, and not if the host refused it. */
export function withTools({ tools }: CompiledPlugin, host: Host): Host {
  return {
    ...host,
    async registerTool(tool) {
      const former = tools.get(tool.name);
      tools.set(tool.name, tool);
      try {
        await host.registerTool(tool);
      } catch (error) {
        if (former === undefined) tools.delete(tool.name);
        else tools.set(tool.name, former);
        throw error;
      }
    },
  };
}
