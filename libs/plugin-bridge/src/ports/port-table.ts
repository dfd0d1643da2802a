import type { GateName } from '@codedock/hooks';
import type { Port } from '@codedock/proto';

/** What an answer does to the gate, beside changing its value. */
export type Direction = 'continue' | 'handled' | 'block' | 'ask' | 'skip' | 'abort';

/** `veto`: a plugin that could not be asked fails the gate. `rewrite`: the value from before it is kept. */
export type PortClass = 'veto' | 'rewrite';

/** What happens at a port when a plugin could not be asked: `closed` fails the gate, `open` keeps the value. */
export type FailurePolicy = 'open' | 'closed';

/** A gate as the plugin protocol knows it. */
export interface PortSpec {
  readonly port: Port;
  readonly gate: GateName;
  readonly class: PortClass;
  /** What plugins may tighten; nothing loosens it. */
  readonly failureDefault: FailurePolicy;
  /** Answer types with a meaning here; empty and the port's own name mean `continue`, any other type is invalid. */
  readonly directions: ReadonlyMap<string, Direction>;
}

/** Gates that have a port, by the port's name. */
export interface PortGates {
  'agent/input': 'beforeInput';
  'agent/pre-step': 'beforeRunStart';
  'agent/request': 'transformContext';
  'llm/stream': 'beforeProviderRequest';
  'tools/pre-execute': 'beforeToolCall';
  'tools/post-execute': 'afterToolCall';
}

const NONE: ReadonlyMap<string, Direction> = new Map();

/** Every port: its gate, its class, what failing means there and which answers it allows. */
export const portTable = {
  'agent/input': {
    port: 'agent/input',
    gate: 'beforeInput',
    class: 'veto',
    failureDefault: 'closed',
    directions: new Map<string, Direction>([
      ['input/handled', 'handled'],
      ['input/blocked', 'block'],
    ]),
  },
  'agent/pre-step': {
    port: 'agent/pre-step',
    gate: 'beforeRunStart',
    class: 'veto',
    failureDefault: 'closed',
    directions: new Map<string, Direction>([['run/blocked', 'block']]),
  },
  'agent/request': {
    port: 'agent/request',
    gate: 'transformContext',
    class: 'rewrite',
    failureDefault: 'open',
    directions: NONE,
  },
  'llm/stream': {
    port: 'llm/stream',
    gate: 'beforeProviderRequest',
    class: 'rewrite',
    failureDefault: 'open',
    directions: NONE,
  },
  'tools/pre-execute': {
    port: 'tools/pre-execute',
    gate: 'beforeToolCall',
    class: 'veto',
    failureDefault: 'closed',
    directions: new Map<string, Direction>([
      ['tools/denied', 'block'],
      ['tools/ask', 'ask'],
      ['tools/skipped', 'skip'],
      ['run/aborted', 'abort'],
    ]),
  },
  'tools/post-execute': {
    port: 'tools/post-execute',
    gate: 'afterToolCall',
    class: 'rewrite',
    failureDefault: 'open',
    directions: NONE,
  },
} as const satisfies { readonly [P in Port]: PortSpec & { readonly port: P; readonly gate: PortGates[P] } };

/** The spec of a port, without the literal types of the table. */
export function portSpec(port: Port): PortSpec {
  return portTable[port];
}

/** The stricter of failure policies: `closed` if any says so. */
export function strictest(...policies: readonly (FailurePolicy | undefined)[]): FailurePolicy {
  return policies.includes('closed') ? 'closed' : 'open';
}

/** The answer type that stands for a direction at a port; empty for `continue`. Undefined where the port does not allow it. */
export function answerType(port: Port, direction: Direction): string | undefined {
  if (direction === 'continue') return '';
  for (const [type, candidate] of portSpec(port).directions) if (candidate === direction) return type;
  return undefined;
}
