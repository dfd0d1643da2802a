import type { GateCall, JsonObject, Message } from '@codedock/domain';
import type { GateEvent } from '@codedock/hooks';
import { maxPayloadBytes, type Port } from '@codedock/proto';
import fc from 'fast-check';
import { opened } from '../../test-support/opened-call.js';
import { portMappings } from '../mapping/index.js';
import { interpretReply, type PortReply } from './interpret-reply.js';
import type { PortGates } from './port-table.js';

const message: Message = {
  id: 'm1',
  sessionId: 's1',
  role: 'user',
  content: { text: 'hi' },
  eventSeq: 3,
  createdAt: '2026-01-02T03:04:05.600Z',
};
const reply: Message = {
  ...message,
  id: 'm2',
  role: 'assistant',
  toolCalls: [{ id: 'c1', name: 'ping', arguments: { a: 1 }, providerCallId: 'p1' }],
};
const events: { readonly [P in Port]: GateEvent<PortGates[P]> } = {
  'agent/input': { content: 'hello', mode: 'fast' },
  'agent/pre-step': { systemPrompt: 'be good', hidden: [message] },
  'agent/request': { systemPrompt: 'be good', messages: [message, reply] },
  'llm/stream': {
    headers: { 'x-a': '1', Authorization: 'Bearer secret' },
    body: '{"n":1.0,"big":12345678901234567890, "2":1,"1":2}',
  },
  'tools/pre-execute': {
    call: { id: 'c1', name: 'ping', arguments: { a: 1 } },
    tool: { requiresApproval: false, effect: 'effectful' },
  },
  'tools/post-execute': {
    call: { id: 'c1', name: 'ping', arguments: { a: 1 } },
    result: { success: true, output: { pong: true } },
    n: 1,
  },
};
const call: GateCall = opened();

function sentOn<P extends Port>(port: P) {
  const payload = portMappings[port].encode(events[port], call);
  return { payload: Buffer.from(payload), context: Buffer.from('{"k":1}'), chainId: 'chain' };
}

type Answer = { type?: string; context?: string; reason?: string; chainId?: string; skip?: string };
function on<P extends Port>(port: P, payload: unknown, answer: Answer = {}): PortReply<P> {
  const text = payload === undefined ? '' : typeof payload === 'string' ? payload : JSON.stringify(payload);
  return interpretReply(port, sentOn(port), {
    type: answer.type ?? '',
    payload: Buffer.from(text),
    ...(answer.context === undefined ? {} : { context: Buffer.from(answer.context) }),
    ...(answer.reason === undefined ? {} : { reason: answer.reason }),
    ...(answer.chainId === undefined ? {} : { chainId: answer.chainId }),
    ...(answer.skip === undefined ? {} : { skipResult: Buffer.from(answer.skip) }),
  });
}
const everyPort = Object.keys(events) as Port[];
const sentValue = (port: Port) => JSON.parse(sentOn(port).payload.toString()) as JsonObject;

describe('a payload', () => {
  it.each(Object.keys(events) as Port[])('of %s under other names is broken, an empty one unchanged', (port) => {
    expect(on(port, { text: 'redacted', Content: 'x' })).toMatchObject({
      outcome: 'invalid',
      invalid: expect.stringContaining(`none of the members of ${port}`),
    });
    expect(on(port, {})).toMatchObject({ outcome: 'continued', changed: false });
  });
});

describe('payloads', () => {
  it('have the wire shapes, without nulls, absent fields and credentials', () => {
    const wire = Object.fromEntries(everyPort.map((port) => [port, sentOn(port).payload.toString()]));
    expect(wire).toMatchInlineSnapshot(`
{
  "agent/input": "{"content":"hello","mode":"fast"}",
  "agent/pre-step": "{"system_prompt":"be good","hidden":[{"id":"m1","session_id":"s1","role":"user","content":{"text":"hi"},"event_seq":3,"created_at":"2026-01-02T03:04:05.600Z"}]}",
  "agent/request": "{"system_prompt":"be good","messages":[{"id":"m1","session_id":"s1","role":"user","content":{"text":"hi"},"event_seq":3,"created_at":"2026-01-02T03:04:05.600Z"},{"id":"m2","session_id":"s1","role":"assistant","content":{"text":"hi"},"tool_calls":[{"id":"c1","name":"ping","arguments":{"a":1},"idempotency_key":"c1"}],"event_seq":3,"created_at":"2026-01-02T03:04:05.600Z"}]}",
  "llm/stream": "{"headers":{"x-a":"1"},"body":{"n":1.0,"big":12345678901234567890, "2":1,"1":2}}",
  "tools/post-execute": "{"call":{"id":"c1","name":"ping","arguments":{"a":1},"attempt":1,"idempotency_key":"c1"},"result":{"CallID":"c1","Name":"ping","Output":{"pong":true},"Success":true,"Error":""}}",
  "tools/pre-execute": "{"call":{"id":"c1","name":"ping","arguments":{"a":1},"idempotency_key":"c1"}}",
}
`);
  });

  it('leave out a null output and give a missing error as empty text', () => {
    const text = portMappings['tools/post-execute'].encode(
      { ...events['tools/post-execute'], result: { success: false, output: null } },
      call,
    );
    expect(JSON.parse(text).result).toEqual({ CallID: 'c1', Name: 'ping', Success: false, Error: '' });
  });
});

describe('an answer that changes nothing', () => {
  it.each(everyPort)('on %s: same bytes, no bytes, re-encoded, re-ordered', (port) => {
    const sent = sentOn(port);
    const value = sentValue(port);
    const reordered = JSON.stringify(Object.fromEntries(Object.entries(value).reverse()), undefined, 2);
    for (const payload of [sent.payload.toString(), undefined, JSON.stringify(value), reordered, '{}']) {
      for (const type of ['', port]) {
        const judged = on(port, payload, { type });
        expect(judged).toMatchObject({ outcome: 'continued', direction: 'continue', changed: false, notes: [] });
        expect(judged.payload.equals(sent.payload)).toBe(true);
      }
    }
  });

  it('survives a typed re-encoding: instants, empty lists, empty and null optional fields', () => {
    const request = sentValue('agent/request');
    const messages = (request['messages'] as JsonObject[]).map((one) => ({
      ...one,
      run_id: '',
      turn_id: null,
      attachments: null,
      created_at: '2026-01-02T03:04:05.6Z',
    }));
    expect(on('agent/request', { ...request, messages }).outcome).toBe('continued');
    expect(on('agent/input', { content: 'hello', mode: '' }).outcome).toBe('continued');
    expect(on('llm/stream', { headers: null, body: null }).outcome).toBe('continued');
    const result = { CallID: '', Name: '', Output: { pong: true }, Success: true, Error: null };
    expect(on('tools/post-execute', { result }).outcome).toBe('continued');
  });
});

describe("an answer as Go's encoder writes it", () => {
  it('may leave out the empty text of a message that was sent with one', () => {
    const wire = { ...(sentValue('agent/request')['messages'] as JsonObject[])[1], content: { text: '' } };
    const sent = { payload: Buffer.from(JSON.stringify({ messages: [wire] })), context: Buffer.from('{}') };
    const payload = Buffer.from(JSON.stringify({ messages: [{ ...wire, content: {} }] }));
    expect(interpretReply('agent/request', sent, { type: '', payload }).outcome).toBe('continued');
  });

  it('may be larger than the cap by its escapes alone', () => {
    const content = '<&>'.repeat(Math.floor((maxPayloadBytes - 100) / 3));
    const sent = { payload: Buffer.from(JSON.stringify({ content })), context: Buffer.from('{}') };
    const escaped = (text: string) =>
      Buffer.from(JSON.stringify({ content: text }).replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`));
    expect(interpretReply('agent/input', sent, { type: '', payload: escaped(content) }).outcome).toBe('continued');
    const changed = interpretReply('agent/input', sent, { type: '', payload: escaped(`${content}!`) });
    expect(changed.change).toEqual({ content: `${content}!` });
    const longer = interpretReply('agent/input', sent, { type: '', payload: escaped(`${content}${'!'.repeat(100)}`) });
    expect(longer.outcome).toBe('oversize');
  });

  it('gives a message that has no time the zero time, which is none', () => {
    const made = { role: 'system', content: { text: 'x' }, created_at: '0001-01-01T00:00:00Z' };
    expect(on('agent/pre-step', { hidden: [made] }).change?.hidden?.[0]?.['created_at']).toBe('');
  });
});

describe('an answer that changes the value', () => {
  it('agent/input', () => {
    const judged = on('agent/input', { content: 'bye' });
    expect(judged).toMatchObject({ outcome: 'changed', change: { content: 'bye' } });
    expect(JSON.parse(judged.payload.toString())).toEqual({ content: 'bye', mode: 'fast' });
  });

  it('agent/request keeps the unchanged messages as they were sent', () => {
    const value = sentValue('agent/request');
    const [first, second] = value['messages'] as JsonObject[];
    const judged = on('agent/request', {
      system_prompt: 'x',
      messages: [first, { ...second, content: { text: '[gone]' } }],
    });
    expect(judged.change?.systemPrompt).toBe('x');
    expect(judged.change?.messages?.[0]).toEqual(first);
    expect(judged.change?.messages?.[1]?.['content']).toEqual({ text: '[gone]' });
  });

  it('llm/stream takes the raw slice of a changed body and lays headers over', () => {
    const raw = '{"z":1.00,"n":98765432109876543210}';
    const judged = on('llm/stream', `{ "body" : ${raw} , "headers":{"X-B":"2"}}`);
    expect(judged.change).toEqual({ headers: { 'x-b': '2' }, body: raw });
    expect(judged.payload.toString()).toBe(`{"headers":{"x-a":"1","x-b":"2"},"body":${raw}}`);
  });

  it('llm/stream keeps the original text of a body that is equal by value', () => {
    const { body } = events['llm/stream'];
    const judged = on('llm/stream', { headers: { 'x-a': '9' }, body: JSON.parse(body) });
    expect(judged.change).toEqual({ headers: { 'x-a': '9' } });
    expect(judged.payload.toString()).toBe(`{"headers":{"x-a":"9"},"body":${body}}`);
  });

  it('llm/stream refuses headers that smuggle, notes them and keeps the rest', () => {
    const headers = { Host: 'evil', 'content-length': '1', authorization: 'x', 'x-ok': '1', 'x-bad': 'a\r\nb: c' };
    const judged = on('llm/stream', { headers });
    expect(judged.change).toEqual({ headers: { 'x-ok': '1' } });
    expect(judged.notes).toHaveLength(4);
  });

  it('tools/pre-execute', () => {
    const judged = on('tools/pre-execute', { call: { id: 'c1', name: 'ping', arguments: { a: 2 } } });
    expect(judged.change).toEqual({ arguments: { a: 2 } });
    expect(JSON.parse(judged.payload.toString()).call.idempotency_key).toBe('c1');
  });

  it('tools/post-execute: field by field, in either spelling, and changes to the call are ignored', () => {
    const value = sentValue('tools/post-execute');
    const changedCall = { ...(value['call'] as JsonObject), name: 'other' };
    expect(on('tools/post-execute', { call: changedCall, result: value['result'] }).outcome).toBe('continued');
    expect(on('tools/post-execute', { result: { success: false, error: 'no' } }).change).toEqual({
      success: false,
      error: 'no',
    });
    expect(on('tools/post-execute', { result: { ...(value['result'] as JsonObject), output: 'x' } }).change).toEqual({
      output: 'x',
    });
    const cleared = on('tools/post-execute', { result: { Output: null } });
    expect(cleared.change).toEqual({ output: null });
    expect(JSON.parse(cleared.payload.toString()).result).not.toHaveProperty('Output');
  });

  it('goes on as a valid question for the next plugin', () => {
    const first = on('agent/input', { content: 'one' });
    const next = interpretReply(
      'agent/input',
      { ...sentOn('agent/input'), payload: first.payload },
      {
        type: '',
        payload: Buffer.from('{"content":"hello"}'),
      },
    );
    expect(next.change).toEqual({ content: 'hello' });
  });
});

describe('directions', () => {
  it.each([
    ['agent/input', 'input/handled', 'handled', 'handled'],
    ['agent/input', 'input/blocked', 'block', 'blocked'],
    ['agent/pre-step', 'run/blocked', 'block', 'blocked'],
    ['tools/pre-execute', 'tools/denied', 'block', 'blocked'],
    ['tools/pre-execute', 'tools/ask', 'ask', 'asked'],
    ['tools/pre-execute', 'tools/skipped', 'skip', 'skipped'],
    ['tools/pre-execute', 'run/aborted', 'abort', 'aborted'],
  ] as const)('%s allows %s', (port, type, direction, outcome) => {
    expect(on(port, undefined, { type, reason: 'because' })).toMatchObject({ direction, outcome, reason: 'because' });
    for (const other of everyPort.filter((one) => one !== port)) {
      expect(on(other, undefined, { type })).toMatchObject({ outcome: 'invalid', direction: 'continue' });
    }
  });

  it('ask keeps changed arguments, block drops them', () => {
    const changed = { call: { arguments: { a: 2 } } };
    expect(on('tools/pre-execute', changed, { type: 'tools/ask' })).toMatchObject({ outcome: 'asked', changed: true });
    const denied = on('tools/pre-execute', changed, { type: 'tools/denied' });
    expect(denied.changed).toBe(false);
    expect(denied.payload.equals(sentOn('tools/pre-execute').payload)).toBe(true);
  });

  it('skip carries its result, or the default', () => {
    expect(on('tools/pre-execute', undefined, { type: 'tools/skipped', skip: '{"a":[1]}' }).skipResult).toEqual({
      a: [1],
    });
    expect(typeof on('tools/pre-execute', undefined, { type: 'tools/skipped' }).skipResult).toBe('string');
    expect(on('tools/pre-execute', undefined, { type: 'tools/skipped', skip: '{' }).outcome).toBe('invalid');
  });
});

const deep = `${'['.repeat(70)}${']'.repeat(70)}`;
const hostile: readonly [Port, string, unknown, Answer?][] = [
  ['agent/input', 'unknown type', undefined, { type: 'input/whatever' }],
  ['agent/input', 'not JSON', '{"content":'],
  ['agent/input', 'no object', '"text"'],
  ['agent/input', 'null', 'null'],
  ['agent/input', 'content null', { content: null }],
  ['agent/input', 'content number', { content: 1 }],
  ['agent/input', 'content empty', { content: '' }],
  ['agent/input', 'content with NUL', { content: 'a\u0000b' }],
  ['agent/input', 'content with a lone surrogate', '{"content":"\\ud800"}'],
  ['agent/input', 'mode number', { content: 'x', mode: 1 }],
  ['agent/input', 'another chain', { content: 'x' }, { chainId: 'other' }],
  ['agent/pre-step', 'prompt null', { system_prompt: null }],
  ['agent/pre-step', 'hidden object', { hidden: {} }],
  ['agent/pre-step', 'hidden of strings', { hidden: ['x'] }],
  ['agent/request', 'unknown role', { messages: [{ role: 'root', content: { text: '' } }] }],
  ['agent/request', 'no content', { messages: [{ role: 'user' }] }],
  ['agent/request', 'content without text', { messages: [{ role: 'user', content: {} }] }],
  [
    'agent/request',
    'call without id',
    { messages: [{ role: 'assistant', content: { text: '' }, tool_calls: [{ name: 'x' }] }] },
  ],
  ['agent/request', 'negative seq', { messages: [{ role: 'user', content: { text: '' }, event_seq: -1 }] }],
  ['agent/request', 'no date', { messages: [{ role: 'user', content: { text: '' }, created_at: 'soon' }] }],
  ['llm/stream', 'headers list', { headers: [] }],
  ['llm/stream', 'header number', { headers: { a: 1 } }],
  ['llm/stream', 'body too deep', `{"body":${deep}}`],
  ['tools/pre-execute', 'other id', { call: { id: 'c2', arguments: {} } }],
  ['tools/pre-execute', 'other name', { call: { name: 'rm' } }],
  ['tools/pre-execute', 'other name with a denial', { call: { name: 'rm' } }, { type: 'tools/denied' }],
  ['tools/pre-execute', 'call list', { call: [] }],
  ['tools/pre-execute', '__proto__', '{"call":{"arguments":{"__proto__":{"x":1}}}}'],
  ['tools/pre-execute', 'escaped __proto__', '{"call":{"arguments":{"\\u005f_proto__":1}}}'],
  ['tools/pre-execute', 'too deep', `{"call":{"arguments":${deep}}}`],
  ['tools/post-execute', 'success text', { result: { Success: 'yes' } }],
  ['tools/post-execute', 'success null', { result: { Success: null } }],
  ['tools/post-execute', 'error number', { result: { Error: 5 } }],
  ['tools/post-execute', 'other call', { result: { CallID: 'c9' } }],
  ['tools/post-execute', 'result text', { result: 'x' }],
];

describe('a hostile answer', () => {
  it.each(hostile.map(([port, what, payload, answer = {}]) => [port, what, payload, answer] as const))(
    '%s: %s is invalid and changes nothing',
    (port, _, payload, answer) => {
      const judged = on(port, payload, answer);
      expect(judged).toMatchObject({ outcome: 'invalid', direction: 'continue', changed: false });
      expect(judged.invalid).toBeTruthy();
      expect(judged.payload.equals(sentOn(port).payload)).toBe(true);
    },
  );

  it('over the cap is oversize', () => {
    const payload = Buffer.from(JSON.stringify({ content: 'x'.repeat(maxPayloadBytes) }));
    expect(interpretReply('agent/input', sentOn('agent/input'), { type: '', payload }).outcome).toBe('oversize');
  });

  it('that is no UTF-8 is invalid', () => {
    const payload = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    expect(interpretReply('agent/input', sentOn('agent/input'), { type: '', payload }).outcome).toBe('invalid');
  });

  it('never makes it throw, whatever JSON it is', () => {
    const bodies = fc.oneof(
      fc.json(),
      fc.string(),
      fc
        .dictionary(
          fc.constantFrom(
            'call',
            'result',
            'messages',
            'hidden',
            'headers',
            'body',
            'content',
            'system_prompt',
            'mode',
          ),
          fc.jsonValue(),
        )
        .map((value) => JSON.stringify(value)),
    );
    fc.assert(
      fc.property(fc.constantFrom(...everyPort), bodies, fc.string(), (port, payload, type) => {
        const judged = on(port, payload, { type });
        expect(judged.changed).toBe(judged.change !== undefined);
        if (!judged.changed) expect(judged.payload.equals(sentOn(port).payload)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  it('as deep as what was sent is no failure', () => {
    const args = JSON.parse(deep.slice(10, -10)) as JsonObject;
    const text = portMappings['tools/pre-execute'].encode(
      { ...events['tools/pre-execute'], call: { id: 'c1', name: 'ping', arguments: [args, [[[[[[]]]]]], 1] } },
      call,
    );
    const sent = { payload: Buffer.from(text), context: Buffer.from('{}') };
    const answer = Buffer.from(JSON.stringify(JSON.parse(text), undefined, 1));
    expect(interpretReply('tools/pre-execute', sent, { type: '', payload: answer }).outcome).toBe('continued');
  });
});

describe('the scratchpad of an answer', () => {
  it('gives a patch by top-level key', () => {
    expect(on('agent/input', undefined, { context: '{"a":2}' }).patch).toEqual({ set: { a: 2 }, deleted: ['k'] });
    expect(on('agent/input', undefined, { context: '{ "k": 1 }' }).patch).toBeUndefined();
    expect(on('agent/input', undefined, { context: '' }).patch).toBeUndefined();
  });

  it.each(['[]', 'null', '{', '{"__proto__":1}', JSON.stringify({ a: 'x'.repeat(8_192) })])(
    '%# is dropped and noted, never a failure',
    (context) => {
      const judged = on('agent/input', { content: 'bye' }, { context });
      expect(judged).toMatchObject({
        outcome: 'changed',
        notes: [expect.stringContaining('scratchpad update dropped')],
      });
      expect(judged.patch).toBeUndefined();
    },
  );
});
