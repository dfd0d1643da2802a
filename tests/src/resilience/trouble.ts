import type { PortName } from '@codedock/testkit';

/** What goes wrong in one run, at one port: `hang` never answers, `kill` is a SIGKILL of the plugin to itself. */
export interface Trouble {
  readonly port: PortName;
  readonly how: 'hang' | 'kill';
}

/** Metadata of a run in which a troublemaker does as it is told; it leaves every other run alone. */
export function troubleAt(port: PortName, how: Trouble['how']): { readonly metadata: { readonly trouble: Trouble } } {
  return { metadata: { trouble: { port, how } } };
}

/** Handlers by port, as the SDK calls them. */
const HANDLERS = {
  'agent/input': 'onAgentInput',
  'agent/pre-step': 'onAgentPreStep',
  'agent/request': 'onAgentRequest',
  'tools/pre-execute': 'onToolPreExecute',
  'tools/post-execute': 'onToolPostExecute',
} as const;

/** Source of a plugin that subscribes to some gates and obeys the run's metadata there. */
export const troublemaker = (name: string, ports: readonly (keyof typeof HANDLERS)[]): string => `
import { serve } from '@codedock/plugin-sdk';

const obey = (port: string) => async (input: any) => {
  const trouble = input.principal.metadata.trouble;
  if (trouble?.port !== port) return;
  if (trouble.how === 'kill') process.kill(process.pid, 'SIGKILL');
  await new Promise(() => undefined);
};

serve({
  name: '${name}',
  version: '1.0.0',
${ports.map((port) => `  ${HANDLERS[port]}: obey('${port}'),`).join('\n')}
});
`;
