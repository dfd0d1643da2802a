import type { JsonValue, Message } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import type { PortGates } from '@codedock/plugin-bridge';
import type { Port } from '@codedock/proto';

/** What JSON writers escape differently, or lose: two-, three- and four-byte characters, line separators, HTML, quotes. */
export const UNICODE =
  'Grüße, 日本語, 🦫👩‍👩‍👧, \u2028\u2029 <b>&amp;</b> "\\" \t\r\n \u0001\u007f e\u0301 \ufeff עברית';

/** Texts of every size and kind, by what they are. */
export const texts: Readonly<Record<string, string>> = {
  ascii: 'a plain text',
  unicode: UNICODE,
  '64 KiB': sized(64 * 1024),
  '3 MiB': sized(3 * 1024 * 1024),
};

function sized(bytes: number): string {
  const piece = 'wörd <td>1</td> 🦫 & ';
  return piece.repeat(Math.ceil(bytes / Buffer.byteLength(piece)));
}

/** A call of a tool with these arguments. */
export const call = (value: JsonValue) => ({
  call: { id: 'call-1', name: 'shell', arguments: value },
  tool: { requiresApproval: false, effect: 'effectful' as const },
});
/** A result of a tool, or its failure. */
export const result = (output: JsonValue, error?: string) => ({
  call: { id: 'call-1', name: 'shell', arguments: { command: 'ls' } },
  result: { success: error === undefined, output, ...(error === undefined ? {} : { error }) },
  n: 2,
});
const message = (id: string, more: Partial<Message>): Message => ({
  id,
  sessionId: 's',
  runId: 'r',
  turnId: 't',
  role: 'user',
  content: { text: '' },
  eventSeq: 7,
  createdAt: '2026-01-01T00:00:00.120Z',
  ...more,
});
/** Every shape a message can have, the empty text beside tool calls included. */
export const conversation = (text: string): Message[] => [
  message('m1', { content: { text }, attachments: [{ type: 'image', url: 'a:b', size: 1.5 }] }),
  message('m2', {
    role: 'assistant',
    toolCalls: [
      { id: 'c1', name: 'shell', arguments: { command: 'ls', big: 1e300, nested: [null, true, UNICODE] } },
      { id: 'c2', name: 'ping', arguments: null },
    ],
  }),
  message('m3', { role: 'tool', content: { callId: 'c1', output: { files: [UNICODE], code: 0 } } }),
  message('m4', { role: 'tool', content: { callId: 'c2', output: null }, createdAt: '2026-01-01T00:00:00.000Z' }),
];
/** A provider's request, with numbers and an order of keys that a careless reader would change. */
export const body = (text: string) =>
  `{"z":1,"model":"m","n":12345678901234567890,"f":1.0,"e":1E+2,"messages":[{"role":"user","content":${JSON.stringify(text)}}]}`;

/** Gate events of every port, whose text is the given one. */
export const eventsOf: { readonly [P in Port]: (text: string) => GateEvent<PortGates[P]> } = {
  'agent/input': (text) => ({ content: text, mode: 'plan' }),
  'agent/pre-step': (text) => ({ systemPrompt: text, hidden: [] }),
  'agent/request': (text) => ({ systemPrompt: 'prompt', messages: conversation(text) }),
  'llm/stream': (text) => ({ headers: { 'content-type': 'application/json' }, body: body(text) }),
  'tools/pre-execute': (text) => call({ command: text, list: [1, 2.5, null, { deep: false }] }),
  'tools/post-execute': (text) => result({ text }),
};

/** Gate events of every port with as little in them as there can be, and with unusual values. */
export const unusualEventsOf: {
  readonly [P in Port]: Readonly<Record<string, GateEvent<PortGates[P]>>>;
} = {
  'agent/input': { 'no text': { content: '' } },
  'agent/pre-step': {
    'no prompt': { systemPrompt: '', hidden: [] },
    'hidden messages': { systemPrompt: 'prompt', hidden: conversation('hidden') },
  },
  'agent/request': { 'no messages': { systemPrompt: '', messages: [] } },
  'llm/stream': { 'neither headers nor body': { headers: {}, body: '' } },
  'tools/pre-execute': {
    'no arguments': call(null),
    'arguments that are no object': call([1, 'two']),
    'a tool nobody knows': { ...call({}), call: { id: 'cäll 🦫', name: 'no_such_tool', arguments: {} } },
  },
  'tools/post-execute': {
    'no output': result(null),
    'a failure': result(null, 'it fäiled'),
    'an output that is no object': result('plain text'),
  },
};
