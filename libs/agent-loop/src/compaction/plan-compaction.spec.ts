import { checkpointMessage, type Message } from '@codedock/domain';
import fc from 'fast-check';
import { answeredHistory } from '../answered-history.js';
import { roomOf } from './context-room.js';
import { scaleOf, sizeOfFixed, sizeOfMessages, sum, within } from './context-size.js';
import { type CompactionPlan, planCompaction } from './plan-compaction.js';

const RUN = 'this-run';
const base = { sessionId: 's', turnId: 't', eventSeq: 1, createdAt: '2024-01-01T00:00:00.000Z' };
const isOwnInput = ({ role, runId }: Message) => role === 'user' && runId === RUN;
const says = (id: string, text: string, runId = 'former'): Message => ({
  ...base,
  id,
  runId,
  role: 'user',
  content: { text },
});
const asks = (id: string, text: string, calls: readonly string[], runId = 'former'): Message => ({
  ...base,
  id,
  runId,
  role: 'assistant',
  content: { text },
  ...(calls.length === 0
    ? {}
    : { toolCalls: calls.map((call) => ({ id: call, name: 'tool', arguments: { a: text } })) }),
});
const result = (callId: string, output: string): Message => ({
  ...base,
  id: callId,
  runId: 'former',
  role: 'tool',
  content: { callId, output },
});

const sizes = fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 12_000 }));
const turns = fc.array(
  fc.record({
    input: fc.option(sizes, { nil: undefined }),
    reply: sizes,
    calls: fc.array(fc.record({ size: sizes, answered: fc.boolean() }), { maxLength: 5 }),
  }),
  { maxLength: 20 },
);

function historyFrom(made: readonly (typeof turns extends fc.Arbitrary<infer T> ? T : never)[number][], own: number) {
  const messages: Message[] = [];
  for (const [turn, { input, reply, calls }] of made.entries()) {
    if (input !== undefined) messages.push(says(`u${turn}`, 'u'.repeat(input)));
    const ids = calls.map((_, index) => `${turn}-${index}`);
    messages.push(asks(`m${turn}`, 'é'.repeat(reply), ids));
    for (const [index, call] of calls.entries()) {
      if (call.answered) messages.push(result(`${turn}-${index}`, 'r'.repeat(call.size)));
    }
  }
  messages.splice(own % (messages.length + 1), 0, says('own', 'what is asked', RUN));
  // A result must not stand before its reply: the input goes where nothing is torn.
  return answeredHistory(messages).filter(({ id }) => messages.some((message) => message.id === id));
}

/** Compacts until it fits, with summaries of the size that the model was allowed. */
function compacted(
  history: readonly Message[],
  room: ReturnType<typeof roomOf>,
  fixed = sizeOfFixed('system', [], []),
) {
  let messages = history;
  let checkpointId: string | undefined;
  const calls: Extract<CompactionPlan, { kind: 'summarise' }>[] = [];
  for (let round = 0; ; round += 1) {
    if (round > history.length) throw new Error('it does not end');
    const plan = planCompaction(
      { fixed, history: messages, isOwnInput, ...(checkpointId === undefined ? {} : { checkpointId }) },
      room,
    );
    if (plan.kind !== 'summarise') return { plan, messages, calls };
    calls.push(plan);
    checkpointId = `checkpoint-${round}`;
    const summary = 's'.repeat(room.summaryTokens * 2);
    const at = { id: checkpointId, summary, messages: plan.count, createdAt: base.createdAt };
    messages = [checkpointMessage(at, 's'), ...plan.kept];
  }
}

function expectWhole(messages: readonly Message[]): void {
  const asked = new Map(messages.flatMap(({ id, toolCalls = [] }) => toolCalls.map((call) => [call.id, id])));
  for (const [index, message] of messages.entries()) {
    if ('callId' in message.content) expect(asked.has(message.content.callId)).toBe(true);
    const calls = (message.toolCalls ?? []).map(({ id }) => id);
    expect(messages.slice(index + 1, index + 1 + calls.length).map(({ id }) => id)).toEqual(calls);
  }
}

describe('a compacted context', () => {
  it.each([4_000, 16_000, 64_000])(
    'is within a window of %d tokens, tears no call from its result, keeps order, and keeps the newest and the input whole',
    (contextWindow) => {
      const room = roomOf({ model: { provider: 'fake', name: 'fake', contextWindow } });
      const fixed = sizeOfFixed('system', [says('hidden', 'h'.repeat(400))], []);
      fc.assert(
        fc.property(turns, fc.nat(), (made, own) => {
          const history = historyFrom(made, own);
          const { plan, messages, calls } = compacted(history, room, fixed);
          const shown = answeredHistory(messages);
          expectWhole(shown);
          if (plan.kind === 'fits') expect(within(sum(fixed, sizeOfMessages(shown)), room.hard)).toBe(true);
          const stored = history.map(({ id }) => id);
          const kept = messages.map(({ id }) => id).filter((id) => stored.includes(id));
          expect(kept).toEqual(stored.filter((id) => kept.includes(id)));
          expect(messages.filter(isOwnInput)).toEqual(history.filter(isOwnInput));
          expect(messages.at(-1)).toBe(history.at(-1));
          for (const call of calls) {
            expectWhole(call.older);
            expect(within(sum(fixed, sizeOfMessages(call.older)), room.hard)).toBe(true);
          }
        }),
        { numRuns: 60 },
      );
    },
  );

  it('stands for every stored message exactly once, however many summaries it takes', () => {
    const room = roomOf({ model: { provider: 'fake', name: 'fake', contextWindow: 4_000 } });
    fc.assert(
      fc.property(turns, fc.nat(), (made, own) => {
        const history = historyFrom(made, own);
        const { messages, calls } = compacted(history, room);
        const left = messages.filter(({ id }) => history.some((message) => message.id === id)).length;
        expect(calls.reduce((count, call) => count + call.count, 0) + left).toBe(history.length);
      }),
      { numRuns: 60 },
    );
  });

  it('is left alone while it fits', () => {
    const room = roomOf({ model: { provider: 'fake', name: 'fake' } });
    const history = [says('a', 'x'.repeat(4_000)), says('own', 'go', RUN)];
    expect(planCompaction({ fixed: sizeOfFixed('', [], []), history, isOwnInput }, room)).toEqual({ kind: 'fits' });
  });

  it('is refused by name when one message is larger than the window', () => {
    const room = roomOf({ model: { provider: 'fake', name: 'fake', contextWindow: 2_000 } });
    const history = [says('a', 'small'), says('own', 'x'.repeat(50_000), RUN)];
    const { plan } = compacted(history, room);
    expect(plan).toMatchObject({ kind: 'too_large', largest: { id: 'own' } });
  });

  it('is bounded in bytes too, whatever the window is', () => {
    const room = roomOf({ model: { provider: 'fake', name: 'fake', contextWindow: 100_000_000 } });
    const history = [
      ...Array.from({ length: 5 }, (_, index) => says(`m${index}`, 'x'.repeat(1_000_000))),
      says('own', 'go', RUN),
    ];
    const { plan, messages } = compacted(history, room);
    expect(plan).toEqual({ kind: 'fits' });
    expect(sizeOfMessages(messages).bytes).toBeLessThan(3.5 * 1024 * 1024);
  });

  it('cuts what a summary is made from, never what is kept', () => {
    const room = roomOf({ model: { provider: 'fake', name: 'fake', contextWindow: 8_000 } });
    const history = [
      asks('m', 'look', ['c']),
      result('c', 'r'.repeat(200_000)),
      says('own', 'go', RUN),
      asks('n', 'done', [], RUN),
    ];
    const { calls, messages } = compacted(history, room);
    expect(calls).toHaveLength(1);
    expect(JSON.stringify(calls[0]?.older)).toContain('characters left out');
    expect(messages.map(({ id }) => id)).toEqual(['checkpoint-0', 'own', 'n']);
  });
});

describe('the size of a context', () => {
  it('counts UTF-8', () => {
    const bytes = (text: string) => sizeOfMessages([says('m', text)]).bytes - sizeOfMessages([says('m', '')]).bytes;
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(bytes(text)).toBe(Buffer.byteLength(JSON.stringify(text)) - 2);
      }),
    );
  });

  it('follows the provider upwards, and never further than fourfold', () => {
    const fixed = { tokens: 100, bytes: 400 };
    const history = [says('a', 'x'.repeat(384)), asks('m', '', [])];
    const counted = (tokens: number) => scaleOf(fixed, history, { messageId: 'm', tokens });
    expect(scaleOf(fixed, history, undefined)).toBe(1);
    expect(scaleOf(fixed, history, { messageId: 'gone', tokens: 1_000_000 })).toBe(1);
    expect(counted(10)).toBe(1);
    expect(counted(408)).toBe(2);
    expect(counted(1_000_000)).toBe(4);
  });
});
