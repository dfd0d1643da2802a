import type { JsonObject } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import type { PortGates } from '@codedock/plugin-bridge';
import { maxPayloadBytes, type Port } from '@codedock/proto';
import { body, call, conversation, result, texts, UNICODE } from '../events.js';
import type { Directive } from './directive.js';

/** Gates that plugins are asked at. */
export type AskedGate = PortGates[Port];

/** One case of the table: what is asked, what the plugin is told, what the gate must decide. */
export interface Row<G extends AskedGate = AskedGate> {
  readonly title: string;
  readonly gate: G;
  readonly event: GateEvent<G>;
  readonly directive: Directive;
  /** `BY` stands for the name of whoever decides, a regular expression for a text. */
  readonly decision: object;
  /** What the scratchpad gets, the directive left out. */
  readonly patch?: { readonly set: JsonObject; readonly deleted: readonly string[] };
}

/** Stands for the name of the plugin (or the reference) in an expected decision. */
export const BY = '(by)';

const added = {
  id: 'added',
  role: 'developer',
  content: { text: UNICODE },
  event_seq: 0,
  created_at: '2026-02-03T04:05:06.000Z',
};
const addedMessage = {
  id: 'added',
  sessionId: /^/,
  runId: /^/,
  role: 'developer',
  content: { text: UNICODE },
  eventSeq: 0,
  createdAt: '2026-02-03T04:05:06.000Z',
};
/** Every port with every size of text: continued and rewritten. */
const sizes: readonly Row[] = Object.entries(texts).flatMap(([size, text]): Row[] => [
  {
    title: `beforeInput continues with ${size}`,
    gate: 'beforeInput',
    event: { content: text, mode: 'plan' },
    directive: {},
    decision: { kind: 'continue' },
  },
  {
    title: `beforeInput rewrites ${size}`,
    gate: 'beforeInput',
    event: { content: text },
    directive: { append: UNICODE },
    decision: { kind: 'transform', content: text + UNICODE },
  },
  {
    title: `beforeRunStart continues with ${size}`,
    gate: 'beforeRunStart',
    event: { systemPrompt: text, hidden: conversation('hidden') },
    directive: {},
    decision: { kind: 'continue' },
  },
  {
    title: `beforeRunStart rewrites the prompt of ${size}`,
    gate: 'beforeRunStart',
    event: { systemPrompt: text, hidden: [] },
    directive: { append: UNICODE },
    decision: { kind: 'continue', systemPrompt: text + UNICODE },
  },
  {
    title: `transformContext continues with ${size}`,
    gate: 'transformContext',
    event: { systemPrompt: 'prompt', messages: conversation(text) },
    directive: {},
    decision: { kind: 'reply' },
  },
  {
    title: `transformContext adds to messages of ${size}`,
    gate: 'transformContext',
    event: { systemPrompt: 'prompt', messages: conversation(text) },
    directive: { add: [added] },
    decision: { kind: 'reply', messages: [...conversation(text), addedMessage] },
  },
  {
    title: `beforeProviderRequest continues with ${size}`,
    gate: 'beforeProviderRequest',
    event: { headers: { 'x-kept': 'yes' }, body: body(text) },
    directive: {},
    decision: { kind: 'reply' },
  },
  {
    title: `beforeProviderRequest adds a header beside a body of ${size}`,
    gate: 'beforeProviderRequest',
    event: { headers: { 'x-kept': 'yes' }, body: body(text) },
    directive: { change: { headers: { 'x-added': 'value' } } },
    decision: { kind: 'reply', headers: { 'x-added': 'value' } },
  },
  {
    title: `beforeToolCall proceeds with ${size}`,
    gate: 'beforeToolCall',
    event: call({ command: text, list: [1, 2.5, null, { deep: false }] }),
    directive: {},
    decision: { kind: 'proceed' },
  },
  {
    title: `beforeToolCall proceeds with other arguments than ${size}`,
    gate: 'beforeToolCall',
    event: call({ command: text }),
    directive: { change: { arguments: { command: UNICODE, n: 0.1, big: 9007199254740991, list: [null] } } },
    decision: { kind: 'proceed', arguments: { command: UNICODE, n: 0.1, big: 9007199254740991, list: [null] } },
  },
  {
    title: `afterToolCall continues with ${size}`,
    gate: 'afterToolCall',
    event: result({ text }),
    directive: {},
    decision: { kind: 'reply' },
  },
  {
    title: `afterToolCall marks ${size} as failed`,
    gate: 'afterToolCall',
    event: result(text),
    directive: { change: { Success: false, Error: UNICODE } },
    decision: { kind: 'reply', success: false, error: UNICODE },
  },
]);

const envelopeOfContent = '{"content":""}'.length;

/** The largest payload that is sent, and one that encoders which escape HTML send back six times as large. */
const largest: readonly Row[] = ['x', '<'].map(
  (character): Row => ({
    title: `beforeInput continues with the largest payload, all of it ${character}`,
    gate: 'beforeInput',
    event: { content: character.repeat(maxPayloadBytes - envelopeOfContent) },
    directive: {},
    decision: { kind: 'continue' },
  }),
);

/** Every decision of every port. */
const decisions: readonly Row[] = [
  {
    title: 'beforeInput changes the mode',
    gate: 'beforeInput',
    event: { content: 'x', mode: 'plan' },
    directive: { change: { mode: 'agent' } },
    decision: { kind: 'transform', mode: 'agent' },
  },
  {
    title: 'beforeInput is handled',
    gate: 'beforeInput',
    event: { content: 'x' },
    directive: { type: 'input/handled' },
    decision: { kind: 'handled', by: BY },
  },
  {
    title: 'beforeInput is blocked',
    gate: 'beforeInput',
    event: { content: 'x' },
    directive: { type: 'input/blocked', reason: UNICODE },
    decision: { kind: 'block', reason: UNICODE, by: BY },
  },
  {
    title: 'beforeRunStart adds a hidden message',
    gate: 'beforeRunStart',
    event: { systemPrompt: 'p', hidden: [] },
    directive: { add: [added] },
    decision: { kind: 'continue', hidden: [addedMessage] },
  },
  {
    title: 'beforeRunStart adds a hidden message without id and time',
    gate: 'beforeRunStart',
    event: { systemPrompt: 'p', hidden: [] },
    directive: { add: [{ role: 'system', content: { text: 'be brief' } }] },
    decision: {
      kind: 'continue',
      hidden: [
        {
          ...addedMessage,
          id: /./,
          role: 'system',
          content: { text: 'be brief' },
          createdAt: /^20.*Z$/,
        },
      ],
    },
  },
  {
    title: 'beforeRunStart is blocked',
    gate: 'beforeRunStart',
    event: { systemPrompt: 'p', hidden: [] },
    directive: { type: 'run/blocked', reason: 'not today' },
    decision: { kind: 'block', reason: 'not today', by: BY },
  },
  {
    title: 'transformContext drops a message',
    gate: 'transformContext',
    event: { systemPrompt: 'p', messages: conversation('x') },
    directive: { drop: 1 },
    decision: { kind: 'reply', messages: conversation('x').slice(1) },
  },
  {
    title: 'transformContext drops every message',
    gate: 'transformContext',
    event: { systemPrompt: 'p', messages: conversation('x') },
    directive: { drop: 4, append: '!' },
    decision: { kind: 'reply', systemPrompt: 'p!', messages: [] },
  },
  {
    title: 'beforeProviderRequest replaces the body',
    gate: 'beforeProviderRequest',
    event: { headers: {}, body: body('x') },
    directive: { change: { body: { model: 'other', text: UNICODE } } },
    decision: { kind: 'reply', body: { model: 'other', text: UNICODE } },
  },
  {
    title: 'beforeProviderRequest has no body',
    gate: 'beforeProviderRequest',
    event: { headers: { 'x-kept': UNICODE.replace(/[\r\n]/g, '') }, body: '' },
    directive: {},
    decision: { kind: 'reply' },
  },
  {
    title: 'beforeToolCall has no arguments',
    gate: 'beforeToolCall',
    event: call(null),
    directive: {},
    decision: { kind: 'proceed' },
  },
  {
    title: 'beforeToolCall denies',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { type: 'tools/denied', reason: UNICODE },
    decision: { kind: 'block', reason: UNICODE, by: BY },
  },
  {
    title: 'beforeToolCall asks',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { type: 'tools/ask', reason: 'over 80 characters' },
    decision: { kind: 'ask', reasons: [{ by: BY, reason: 'over 80 characters' }] },
  },
  {
    title: 'beforeToolCall asks with other arguments',
    gate: 'beforeToolCall',
    event: call({ command: 'rm' }),
    directive: { type: 'tools/ask', reason: 'why', change: { arguments: { command: 'ls' } } },
    decision: { kind: 'ask', reasons: [{ by: BY, reason: 'why' }], arguments: { command: 'ls' } },
  },
  ...[{ cached: [1, UNICODE] }, 'a text', 0, false].map(
    (value): Row => ({
      title: `beforeToolCall skips with ${JSON.stringify(value).slice(0, 20)}`,
      gate: 'beforeToolCall',
      event: call({}),
      directive: { type: 'tools/skipped', skip_result: value },
      decision: { kind: 'skip', result: value, by: BY },
    }),
  ),
  {
    title: 'beforeToolCall skips without a result',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { type: 'tools/skipped' },
    decision: { kind: 'skip', result: 'The call was skipped by a policy.', by: BY },
  },
  {
    title: 'beforeToolCall aborts',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { type: 'run/aborted', reason: 'enough' },
    decision: { kind: 'abort', reason: 'enough', by: BY },
  },
  {
    title: 'afterToolCall continues without an output',
    gate: 'afterToolCall',
    event: result(null, 'it failed'),
    directive: {},
    decision: { kind: 'reply' },
  },
  {
    title: 'afterToolCall replaces the output',
    gate: 'afterToolCall',
    event: result({ secret: 1 }),
    directive: { change: { Output: [UNICODE, null, 1.25] } },
    decision: { kind: 'reply', output: [UNICODE, null, 1.25] },
  },
  {
    title: 'afterToolCall makes a success of a failure',
    gate: 'afterToolCall',
    event: result('old', 'it failed'),
    directive: { change: { Output: '', Success: true, Error: '' } },
    decision: { kind: 'reply', output: '', success: true, error: null },
  },
];

/** What plugins share. */
const scratchpad: readonly Row[] = [
  {
    title: 'the scratchpad gets and loses keys',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { set: { 'interop.new': { ü: [1, null, UNICODE] }, kept: 2 }, delete: ['gone'] },
    decision: { kind: 'proceed' },
    patch: { set: { 'interop.new': { ü: [1, null, UNICODE] }, kept: 2 }, deleted: ['gone'] },
  },
  {
    title: 'the scratchpad is kept by a denial',
    gate: 'beforeToolCall',
    event: call({}),
    directive: { type: 'tools/denied', reason: 'no', set: { because: 'no' } },
    decision: { kind: 'block', reason: 'no', by: BY },
    patch: { set: { because: 'no' }, deleted: [] },
  },
  {
    title: 'the scratchpad changes before there is a run',
    gate: 'beforeInput',
    event: { content: 'x' },
    directive: { set: { early: true } },
    decision: { kind: 'continue' },
    patch: { set: { early: true }, deleted: [] },
  },
];

/** The conformance table. */
export const rows: readonly Row[] = [...sizes, ...largest, ...decisions, ...scratchpad];
