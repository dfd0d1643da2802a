/** Names of the gates in the plugin protocol, in loop order. */
export const ports = [
  'agent/input',
  'agent/pre-step',
  'agent/request',
  'llm/stream',
  'tools/pre-execute',
  'tools/post-execute',
] as const;

/** Name of a gate in the plugin protocol. */
export type Port = (typeof ports)[number];

const known: ReadonlySet<string> = new Set(ports);

/** Whether a subscription names a port; everything else is the name of a ledger event. */
export function isPort(name: string): name is Port {
  return known.has(name);
}

/** What a ledger event name looks like: dotted lower-case words. */
export const eventPattern = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/;
