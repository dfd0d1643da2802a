/** A plugin that does at a tool's gate what the metadata of the run tells it, and remembers each call at the host. */
import { definePlugin, log, serve } from '@codedock/plugin-sdk';

serve(
  definePlugin({
    name: 'traced',
    version: '1.0.0',
    onAgentInput: () => undefined,
    onAgentRequest: () => undefined,
    async onToolPreExecute(input) {
      switch (input.principal.metadata['told']) {
        case 'veto':
          return input.deny('not today');
        case 'ask':
          return input.askApproval('somebody must look at it');
        case 'hang':
          return new Promise<undefined>(() => undefined);
        default:
          log.info('asked about\n\u001b[31ma call', { tool: input.call.name });
          await input.host.memory.upsert(input, 'seen', 'yes');
          return undefined;
      }
    },
  }),
);
