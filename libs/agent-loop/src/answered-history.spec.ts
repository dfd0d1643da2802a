import type { Message } from '@codedock/domain';
import fc from 'fast-check';
import { answeredHistory } from './answered-history.js';

const base = { sessionId: 's', runId: 'r', turnId: 't', eventSeq: 1, createdAt: '2024-01-01T00:00:00.000Z' };
const user = (id: string): Message => ({ ...base, id, role: 'user', content: { text: id } });
const asks = (id: string, ...calls: string[]): Message => ({
  ...base,
  id,
  role: 'assistant',
  content: { text: '' },
  toolCalls: calls.map((call) => ({ id: call, name: 'tool', arguments: {} })),
});
const result = (callId: string): Message => ({
  ...base,
  id: callId,
  role: 'tool',
  content: { callId, output: `result of ${callId}` },
});
const shape = (messages: readonly Message[]) =>
  messages.map(({ id, role, content }) => (role === 'tool' && 'callId' in content ? content.output : id));

describe('the history a model is shown', () => {
  it('is the stored one where every call has its result', () => {
    const history = [user('u'), asks('m', 'a', 'b'), result('a'), result('b'), user('v')];
    expect(answeredHistory(history)).toEqual(history);
  });

  it('has results in the order of the calls, however they were stored', () => {
    const history = [asks('m', 'a', 'b'), result('b'), user('v'), result('a')];
    expect(shape(answeredHistory(history))).toEqual(['m', 'result of a', 'result of b', 'v']);
  });

  it('says of a call without a result that its outcome is not known', () => {
    const told = shape(answeredHistory([user('u'), asks('m', 'a', 'b'), result('a'), user('v')]));
    expect(told).toEqual(['u', 'm', 'result of a', expect.stringContaining('not known'), 'v']);
  });

  it('never tears a call from its result, and loses nothing', () => {
    const plan = fc.array(fc.array(fc.record({ answered: fc.boolean(), late: fc.boolean() }), { maxLength: 4 }));
    fc.assert(
      fc.property(plan, (turns) => {
        const late: Message[] = [];
        const history = turns.flatMap((calls, turn) => {
          const ids = calls.map((_, index) => `${turn}-${index}`);
          const results = calls.flatMap((call, index) =>
            call.answered ? [{ call, of: result(ids[index] ?? '') }] : [],
          );
          late.push(...results.filter(({ call }) => call.late).map(({ of }) => of));
          const own = results.filter(({ call }) => !call.late).map(({ of }) => of);
          return [asks(`m${turn}`, ...ids), ...own, user(`u${turn}`)];
        });
        const shown = answeredHistory([...history, ...late]);
        for (const [index, message] of shown.entries()) {
          const calls = message.toolCalls ?? [];
          expect(shown.slice(index + 1, index + 1 + calls.length).map(({ id }) => id)).toEqual(
            calls.map(({ id }) => id),
          );
        }
        expect(shown).toEqual(expect.arrayContaining([...history, ...late]));
      }),
    );
  });
});
