import { chosenCalls, wordOf } from './approvals.js';

const calls = (...decided: boolean[]) => ({
  calls: decided.map((done, index) => ({
    callId: `call ${index}`,
    tool: 'tool',
    arguments: {},
    reasons: [],
    ...(done ? { decision: 'approve' as const } : {}),
  })),
});

describe('codedock approvals decide', () => {
  it.each([
    [{ approve: true }, { decision: 'approve' }],
    [
      { approve: true, scope: 'run', edit: '{"a":1}' },
      { decision: 'approve', scope: 'run', arguments: { a: 1 } },
    ],
    [{ deny: true as const }, { decision: 'deny' }],
    [{ deny: 'too much' }, { decision: 'deny', reason: 'too much' }],
  ])('%j says %j', (options, word) => {
    expect(wordOf(options)).toEqual(word);
  });

  it.each([
    [{}, 'either --approve or --deny'],
    [{ approve: true, deny: 'no' }, 'either --approve or --deny'],
    [{ deny: 'no', scope: 'run' }, 'go with --approve only'],
    [{ approve: true, edit: '{a:1}' }, '--edit takes JSON'],
  ])('%j is refused', (options, why) => {
    expect(() => wordOf(options)).toThrow(why);
  });

  it('decides what is open, the named call alone, or – again – all', () => {
    expect(chosenCalls(calls(true, false, false), {})).toEqual(['call 1', 'call 2']);
    expect(chosenCalls(calls(false, false), { call: 'call 1' })).toEqual(['call 1']);
    expect(chosenCalls(calls(true, true), {})).toEqual(['call 0', 'call 1']);
  });

  it('edits one call only', () => {
    expect(chosenCalls(calls(true, false), { edit: '{}' })).toEqual(['call 1']);
    expect(() => chosenCalls(calls(false, false), { edit: '{}' })).toThrow('name it with --call');
    expect(chosenCalls(calls(false, false), { edit: '{}', call: 'call 0' })).toEqual(['call 0']);
  });
});
