import type { GateName, Gates, NotificationName } from './gates.js';

/** How a gate's decisions are used: a veto can refuse, a rewrite replaces fields, control can end the run, an observer answers nothing. */
export type GateClass = 'veto' | 'rewrite' | 'control' | 'observe';

/** Name of a gate in the plugin protocol. Only the plugin side and the audit use it. */
export type PortName =
  | 'agent/input'
  | 'agent/pre-step'
  | 'agent/request'
  | 'llm/stream'
  | 'tools/pre-execute'
  | 'tools/post-execute';

/** What the loop does when a remote hook could not be asked: refuse, keep the input, or – no remote hook exists – nothing. */
export type RemoteFailure = 'closed' | 'keep' | 'none';

/** Everything about a gate that is not its types: one row per gate, the source of docs/gates.md. */
export interface GatePolicy {
  /** Position in loop order, 1–10. */
  readonly order: number;
  /** Undefined: only in-process hooks stand here. */
  readonly port: PortName | undefined;
  readonly class: GateClass;
  /** Where exactly in the loop, for people. */
  readonly where: string;
  /** Fields of the event; `changes` when a decision may replace the field. */
  readonly fields: readonly { readonly name: string; readonly changes: boolean }[];
  /** Kinds of decision. Empty for observers. */
  readonly decisions: readonly string[];
  /** Kinds that only an in-process hook may answer. */
  readonly inProcessOnly: readonly string[];
  /** Kinds that end the chain at once. */
  readonly ends: readonly string[];
  readonly remoteFailure: RemoteFailure;
  /** What happens when a remote hook fails, for people. */
  readonly failureText: string;
  /** What else a hook's author has to know. */
  readonly text: string;
}

type Kinds<D> = D extends { readonly kind: infer K } ? Exclude<K, 'could_not_ask'> : never;
type PolicyOf<G extends GateName> = GatePolicy & {
  readonly decisions: readonly Kinds<Gates[G]['decision']>[];
  readonly fields: readonly { readonly name: keyof Gates[G]['event']; readonly changes: boolean }[];
};

const changes = <N extends string>(name: N) => ({ name, changes: true }) as const;
const shows = <N extends string>(name: N) => ({ name, changes: false }) as const;

/** The policy of every gate, in loop order. A gate without a row, or with a decision its types do not know, does not compile. */
export const GATE_POLICIES = {
  beforeInput: {
    order: 1,
    port: 'agent/input',
    class: 'veto',
    where:
      'gateway, after the request is validated and authorised; before busy-session handling, before an active run is interrupted, a message inserted or a run created',
    fields: [changes('content'), changes('mode')],
    decisions: ['continue', 'transform', 'handled', 'block'],
    inProcessOnly: [],
    ends: ['handled', 'block'],
    remoteFailure: 'closed',
    failureText: 'refused with 503; no message, run or event is written and no run is cancelled (the audit row is)',
    text: '`handled` answers 200 and creates or cancels nothing, also on a busy session. Changed values pass the request’s own validation.',
  },
  beforeRunStart: {
    order: 2,
    port: 'agent/pre-step',
    class: 'veto',
    where: 'runner, after the first lease, before the loop',
    fields: [changes('systemPrompt'), changes('hidden')],
    decisions: ['continue', 'block'],
    inProcessOnly: [],
    ends: ['block'],
    remoteFailure: 'closed',
    failureText: 'the run ends `blocked`',
    text: 'Once per run: the result is checkpointed and used on every resume. Hidden messages go to every model call after the system prompt and before history; they appear in no API, log or audit.',
  },
  onLoop: {
    order: 3,
    port: undefined,
    class: 'control',
    where: 'at the start of every iteration after the first (the back edge)',
    fields: [shows('runId'), shows('sessionId'), shows('iteration'), shows('messages'), shows('usage')],
    decisions: ['continue', 'stop'],
    inProcessOnly: [],
    ends: ['stop'],
    remoteFailure: 'none',
    failureText: '–',
    text: '`stop` ends the run `completed`, `stopped_by_hook`.',
  },
  transformContext: {
    order: 4,
    port: 'agent/request',
    class: 'rewrite',
    where: 'after the context is built, before every model call',
    fields: [changes('systemPrompt'), changes('messages')],
    decisions: ['reply', 'stop'],
    inProcessOnly: ['stop'],
    ends: ['stop'],
    remoteFailure: 'keep',
    failureText: 'the value from before the failing plugin is kept',
    text: 'Serves this one model call and is not stored; the next call starts from stored messages again.',
  },
  beforeProviderHeaders: {
    order: 5,
    port: undefined,
    class: 'rewrite',
    where: 'HTTP providers only, before `beforeProviderRequest`, each attempt',
    fields: [changes('headers')],
    decisions: ['reply'],
    inProcessOnly: [],
    ends: [],
    remoteFailure: 'none',
    failureText: '–',
    text: 'The answer holds all headers: a missing name is removed. Credentials are not among them.',
  },
  beforeProviderRequest: {
    order: 6,
    port: 'llm/stream',
    class: 'rewrite',
    where: 'HTTP providers only, right before each attempt is sent; one call carries headers and body',
    fields: [changes('headers'), changes('body')],
    decisions: ['reply'],
    inProcessOnly: [],
    ends: [],
    remoteFailure: 'keep',
    failureText: 'the value from before the failing plugin is kept',
    text: 'Headers are laid over the request’s. A body that is absent or equal by JSON value leaves the original bytes. Credentials are added after the gate.',
  },
  afterProviderResponse: {
    order: 7,
    port: undefined,
    class: 'observe',
    where: 'after every response head (4xx and 5xx too, not connection errors), before the body is read',
    fields: [shows('status'), shows('headers')],
    decisions: [],
    inProcessOnly: [],
    ends: [],
    remoteFailure: 'none',
    failureText: '–',
    text: 'A throw fails the attempt.',
  },
  afterModelCall: {
    order: 8,
    port: undefined,
    class: 'control',
    where: 'after each complete model reply, before it is stored or acted on',
    fields: [changes('message'), shows('usage'), shows('finishReason')],
    decisions: ['continue', 'stop'],
    inProcessOnly: [],
    ends: ['stop'],
    remoteFailure: 'none',
    failureText: '–',
    text: '`stop` stores the reply, gives its open tool calls the failed result "stopped", and ends the run `completed`, `stopped_by_hook`.',
  },
  beforeToolCall: {
    order: 9,
    port: 'tools/pre-execute',
    class: 'veto',
    where: 'after lookup, schema validation and permission; before approval',
    fields: [changes('call'), shows('tool')],
    decisions: ['proceed', 'block', 'skip', 'ask', 'abort'],
    inProcessOnly: [],
    ends: ['block', 'skip', 'abort'],
    remoteFailure: 'closed',
    failureText: 'failed result naming the host as the source; no approval, no execution',
    text: 'Of `call` only the arguments change; changed arguments are validated and permitted once more. `ask` does not end the chain. `abort` ends the run `blocked`, `aborted_by_hook`.',
  },
  afterToolCall: {
    order: 10,
    port: 'tools/post-execute',
    class: 'rewrite',
    where: 'after every execution attempt, before the result is stored; not after block, skip or deny',
    fields: [shows('call'), changes('result'), shows('n')],
    decisions: ['reply'],
    inProcessOnly: [],
    ends: [],
    remoteFailure: 'keep',
    failureText: 'the value from before the failing plugin is kept',
    text: 'Field by field over output, error and success: an absent field keeps its value, a present null replaces it. An effectful call is never executed again because a hook said so.',
  },
} as const satisfies Record<GateName, GatePolicy> & { readonly [G in GateName]: PolicyOf<G> };

/** Gates at which a remote hook may stand. */
export type RemoteGateName = {
  [G in GateName]: (typeof GATE_POLICIES)[G]['port'] extends PortName ? G : never;
}[GateName];

/** The policy of one gate. */
export function policyOf(gate: GateName): GatePolicy {
  return GATE_POLICIES[gate];
}

/** All gates in loop order. */
export const GATE_NAMES = Object.keys(GATE_POLICIES) as readonly GateName[];

/** All notifications in loop order, with the place where each is sent. */
export const NOTIFICATION_PLACES = {
  onRunStart: 'after the checkpoint of `beforeRunStart`, at most once per run',
  onTurnStart: 'when a turn begins, and when a stored turn is resumed',
  onToolExecutionStart: 'after an execution is committed, right before the tool is touched',
  onTurnEnd: 'when every call of a turn has a result, before the turn is completed',
  onRunEnd: 'at the entry of termination, on every terminal path',
} as const satisfies Record<NotificationName, string>;

/** All notifications in loop order. */
export const NOTIFICATION_NAMES = Object.keys(NOTIFICATION_PLACES) as readonly NotificationName[];
