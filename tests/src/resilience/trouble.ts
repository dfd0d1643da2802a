import type { PortName } from '@codedock/testkit';

/** What goes wrong in one run, at one port: `hang` never answers, `kill` is a SIGKILL of the plugin to itself. */
export interface Trouble {
  readonly port: PortName;
  readonly how: 'hang' | 'kill';
}

/** Metadata of a run in which the plugin `trouble` does as it is told; it leaves every other run alone. */
export function troubleAt(port: PortName, how: Trouble['how']): { readonly metadata: { readonly trouble: Trouble } } {
  return { metadata: { trouble: { port, how } } };
}

/** Source of the plugin `trouble`: subscribes to every gate of the fake provider's runs and obeys the run's metadata. */
export const TROUBLE = `
import { serve } from '@codedock/plugin-sdk';

const obey = (port: string) => async (input: any) => {
  const trouble = input.principal.metadata.trouble;
  if (trouble?.port !== port) return;
  if (trouble.how === 'kill') process.kill(process.pid, 'SIGKILL');
  await new Promise(() => undefined);
};

serve({
  name: 'trouble',
  version: '1.0.0',
  onAgentInput: obey('agent/input'),
  onAgentPreStep: obey('agent/pre-step'),
  onAgentRequest: obey('agent/request'),
  onToolPreExecute: obey('tools/pre-execute'),
  onToolPostExecute: obey('tools/post-execute'),
});
`;
