import fc from 'fast-check';
import { errorLine, type Frame, notificationLine, oneLine, readFrame, requestLine, resultLine } from './frame.js';

const read = (line: string | Buffer) => readFrame(Buffer.from(line));

describe('a line from a plugin', () => {
  it.each<[string, string | Buffer, Partial<Frame>]>([
    ['is no JSON', 'loading…', { kind: 'broken', reason: 'it is not JSON' }],
    ['is cut off', '{"id":1,"result":{', { kind: 'broken' }],
    ['is empty of content', '   ', { kind: 'broken' }],
    ['is an array', '[{"id":1}]', { kind: 'broken', reason: 'it is not a JSON object' }],
    ['is a number', '1', { kind: 'broken' }],
    ['is null', 'null', { kind: 'broken' }],
    ['is no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), { kind: 'broken', reason: 'it is not UTF-8' }],
    ['holds a NUL', '{"id":1,"result":"\u0000"}', { kind: 'broken' }],
    ['holds nothing', '{}', { kind: 'broken' }],
    ['has no id', '{"result":{}}', { kind: 'broken' }],
    ['has the id 0', '{"id":0,"result":{}}', { kind: 'broken' }],
    ['has a negative id', '{"id":-1,"result":{}}', { kind: 'broken' }],
    ['has a broken id', '{"id":1.5,"result":{}}', { kind: 'broken' }],
    ['has an id beyond safe numbers', '{"id":9007199254740993,"result":{}}', { kind: 'broken' }],
    ['has a text as id', '{"id":"1","result":{}}', { kind: 'broken' }],
    ['has neither result nor error', '{"id":1}', { kind: 'invalid', id: 1 }],
    ['has an empty error', '{"id":1,"error":""}', { kind: 'invalid', id: 1 }],
    ['has null as error beside a result', '{"id":1,"error":null,"result":1}', { kind: 'result', id: 1 }],
    ['has both', '{"id":1,"error":"no","result":1}', { kind: 'error', id: 1, error: 'no' }],
    ['has an error object', '{"id":1,"error":{"code":-1,"message":"no"}}', { kind: 'error', error: 'no' }],
    [
      'has an error that is no text',
      '{"id":1,"error":7}',
      { kind: 'error', error: expect.stringContaining('without') },
    ],
    ['has a method that is no text', '{"id":1,"method":7}', { kind: 'broken' }],
    ['has an empty method', '{"id":1,"method":""}', { kind: 'broken' }],
    ['asks with an id that is none', '{"id":"x","method":"m"}', { kind: 'broken' }],
    ['asks without params', '{"id":1,"method":"m"}', { kind: 'request', id: 1, method: 'm' }],
    ['asks with a list', '{"id":1,"method":"m","params":[]}', { kind: 'refused', id: 1, method: 'm' }],
    ['asks with null', '{"id":1,"method":"m","params":null}', { kind: 'refused', id: 1 }],
    ['tells', '{"method":"m","params":{"a":1}}', { kind: 'notification', method: 'm' }],
    ['tells with the id 0', '{"id":0,"method":"m"}', { kind: 'notification' }],
    ['tells with null as id', '{"id":null,"method":"m"}', { kind: 'notification' }],
    ['tells with a list', '{"method":"m","params":[]}', { kind: 'broken' }],
    ['asks and answers at once', '{"id":1,"method":"m","result":1}', { kind: 'request' }],
    ['names the prototype', '{"__proto__":{"method":"m"},"id":1,"result":1}', { kind: 'result', id: 1 }],
  ])('that %s', (_, line, frame) => {
    expect(read(line)).toMatchObject(frame);
  });

  it('nested beyond reason is read all the same, and judged where its value is used', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    expect(read(`{"id":1,"result":{"envelope":{"payload":${deep}}}}`)).toMatchObject({ kind: 'result' });
  });

  it('keeps members as they were written', () => {
    const frame = read('{"id":1,"result":{"envelope": {"n":1.0,"big":12345678901234567890} ,"__proto__":1}}');
    if (frame.kind !== 'result') throw new Error(frame.kind);
    expect(frame.result.raw('envelope')).toBe('{"n":1.0,"big":12345678901234567890}');
    expect(frame.result.get('toString')).toBeUndefined();
    expect(frame.result.raw('none')).toBeUndefined();
  });

  it('never makes the reader throw', () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => typeof readFrame(Buffer.from(bytes)).kind === 'string'));
    fc.assert(fc.property(fc.json(), (json) => typeof read(json).kind === 'string'));
  });

  it('shortens an error', () => {
    const frame = read(JSON.stringify({ id: 1, error: 'x'.repeat(5_000) }));
    expect(frame).toMatchObject({ kind: 'error', error: `${'x'.repeat(1_999)}…` });
  });
});

describe('a line for a plugin', () => {
  it('is read back as it was meant', () => {
    const text = '{"a":"\\n ü 🎉 \u2028"}';
    expect(read(requestLine(7, 'stage.invoke', text))).toMatchObject({
      kind: 'request',
      id: 7,
      method: 'stage.invoke',
    });
    expect(read(notificationLine('call.cancel', '{"call_id":7}'))).toMatchObject({ kind: 'notification' });
    expect(read(resultLine(3, { text: 'a\nb' }))).toMatchObject({ kind: 'result', id: 3 });
    expect(read(errorLine(3, 'a\nb'))).toMatchObject({ kind: 'error', error: 'a\nb' });
    for (const line of [requestLine(7, 'm', text), resultLine(3, 'a\nb'), errorLine(3, 'a\nb')])
      expect(line.indexOf('\n')).toBe(line.length - 1);
  });

  it('has no line ends inside, whatever JSON it carries', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2, '\r\n'), (value, indent) => {
        const line = oneLine(JSON.stringify(value, null, indent));
        expect(line).not.toMatch(/[\r\n]/);
        expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});
