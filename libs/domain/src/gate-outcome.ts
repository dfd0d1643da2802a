/** What became of one plugin's question at one gate. */
export const HOOK_OUTCOMES = [
  'continued',
  'changed',
  'handled',
  'blocked',
  'asked',
  'skipped',
  'aborted',
  'timeout',
  'crashed',
  'error',
  'invalid',
  'oversize',
  'unreachable',
  'not ready',
  'not asked',
  'not matched',
] as const;
/** What the audit says of one question to one hook. */
export type HookOutcome = (typeof HOOK_OUTCOMES)[number];

/** "Could not ask", told apart by cause; never the same as a refusal. */
export type GateFailureCode = 'gate_timeout' | 'gate_unavailable';

/** The failure code of an outcome; undefined for outcomes that are answers, and in shadow mode. */
export function failureCodeOf(outcome: HookRecord['outcome']): GateFailureCode | undefined {
  switch (outcome) {
    case 'timeout':
    case 'not asked':
      return 'gate_timeout';
    case 'crashed':
    case 'error':
    case 'invalid':
    case 'oversize':
    case 'unreachable':
    case 'not ready':
      return 'gate_unavailable';
    default:
      return undefined;
  }
}

/** One line of the audit: a plugin (or `host`, when no plugin could be asked) at a gate. */
export interface HookRecord {
  readonly gate: string;
  /** Name in the plugin protocol; absent for in-process hooks. */
  readonly port?: string;
  /** The plugin, the in-process hook's name, or `host`. */
  readonly hook: string;
  readonly version?: string;
  readonly policyVersion?: string;
  readonly generation?: number;
  /** A HookOutcome, or `shadow:<decision>`. */
  readonly outcome: HookOutcome | `shadow:${string}`;
  readonly reason?: string;
  /** Milliseconds from the gate's start to the question. */
  readonly startedMs: number;
  readonly durationMs: number;
  readonly queueMs: number;
}
