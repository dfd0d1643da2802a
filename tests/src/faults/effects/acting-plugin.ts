import { writePlugin } from '@codedock/testkit';

/** Name of the plugin whose tools act on the effect sink. */
export const ACTING = 'acting';
/** Its tools: one per effect class, and one that a person has to approve. */
export const TOOLS = { effectful: 'pay', idempotent: 'put', pure: 'look', approved: 'transfer' } as const;

/** Input that the plugin deals with itself: no run comes of it. */
export const HANDLED = 'nothing to do';

const source = `
import { request } from 'node:http';
import { defineTool, serve } from '@codedock/plugin-sdk';

const { sink } = JSON.parse(process.env.CODEDOCK_PLUGIN_CONFIG);

/** Resolves when the effect is on the disk and the sink has answered. */
const act = (tool, args, { callId, idempotencyKey, attempt, signal }) =>
  new Promise((resolve, reject) => {
    const sent = request(sink + '/effects', { method: 'POST', agent: false, signal }, (response) => {
      response.resume();
      response.on('end', () => resolve({ tool, done: response.statusCode === 200 }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(JSON.stringify({ tool, callId, idempotencyKey, attempt, args }));
  });

const tool = (name, effect, requiresApproval = false) =>
  defineTool({
    name,
    description: 'Acts on the outside world.',
    parameters: { type: 'object' },
    effect,
    requiresApproval,
    timeoutMs: 60000,
    execute: (args, call) => act(name, args, call),
  });

serve({
  name: '${ACTING}',
  version: '1.0.0',
  tools: [
    tool('${TOOLS.effectful}', 'effectful'),
    tool('${TOOLS.idempotent}', 'idempotent'),
    tool('${TOOLS.pure}', 'pure'),
    tool('${TOOLS.approved}', 'effectful', true),
  ],
  onAgentInput: (input) => (input.content === '${HANDLED}' ? input.handle() : undefined),
  onToolPreExecute: () => undefined,
});`;

/** Writes the plugin into a root. */
export async function writeActingPlugin(root: string, sinkUrl: string): Promise<void> {
  await writePlugin(root, ACTING, {
    source,
    pluginJson: { config: { sink: sinkUrl }, maxInflight: 64, maxToolCalls: 128 },
  });
}
