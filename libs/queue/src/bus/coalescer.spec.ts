import type { LedgerEvent, SessionPush } from '@codedock/domain';
import fc from 'fast-check';
import { mergePushes, PushCoalescer } from './coalescer.js';
import { decode, encodeCancel, encodeSession } from './wire.js';

const event = (seq: number) =>
  ({ seq, type: 'assistant.delta', payload: { text: `é${seq}` } }) as unknown as LedgerEvent;

function push(lastSeq: number, size: number): SessionPush {
  const events = Array.from({ length: size }, (_, i) => event(lastSeq - size + 1 + i));
  return { sessionId: 's', lastSeq, ...(size > 0 && { events }) };
}

const anyPush = fc
  .integer({ min: 1, max: 30 })
  .chain((lastSeq) => fc.integer({ min: 0, max: Math.min(4, lastSeq) }).map((size) => push(lastSeq, size)));

describe('mergePushes', () => {
  it('keeps the newest seq, and events only complete up to it', () => {
    fc.assert(
      fc.property(anyPush, anyPush, (a, b) => {
        const merged = mergePushes(a, b);
        expect(merged.lastSeq).toBe(Math.max(a.lastSeq, b.lastSeq));
        const seqs = (merged.events ?? []).map(({ seq }) => seq);
        expect(seqs).toEqual(seqs.map((_, i) => merged.lastSeq - seqs.length + 1 + i));
      }),
    );
  });

  it('joins neighbours', () => {
    expect(mergePushes(push(3, 2), push(5, 2)).events?.map(({ seq }) => seq)).toEqual([2, 3, 4, 5]);
  });
});

describe('PushCoalescer', () => {
  it('sends the first push at once and merges what comes while it sends', async () => {
    const sent: (readonly SessionPush[])[] = [];
    let release = () => {};
    const coalescer = new PushCoalescer((pushes) => {
      sent.push(pushes);
      return new Promise((resolve) => {
        release = resolve;
      });
    });
    coalescer.add(push(1, 1));
    await Promise.resolve();
    expect(sent).toHaveLength(1);
    coalescer.add(push(2, 1));
    coalescer.add(push(3, 1));
    release();
    await new Promise(setImmediate);
    expect(sent[1]).toEqual([push(3, 2)]);
    release();
    await coalescer.idle();
  });

  it('survives a send that fails, and tells of the first in a row', async () => {
    const errors: string[] = [];
    const outcomes = ['lost', 'lost', undefined, 'lost again'];
    let calls = 0;
    const send = async () => {
      const failure = outcomes[calls];
      calls += 1;
      if (failure !== undefined) throw new Error(failure);
    };
    const coalescer = new PushCoalescer(send, { onError: ({ message }) => void errors.push(message) });
    for (const seq of [1, 2, 3, 4]) {
      coalescer.add(push(seq, 1));
      await coalescer.idle();
    }
    expect(calls).toBe(4);
    expect(errors).toEqual(['lost', 'lost again']);
  });

  it('gives a send up that never ends: later pushes go on', async () => {
    const errors: string[] = [];
    const sent: (readonly SessionPush[])[] = [];
    const coalescer = new PushCoalescer(
      (pushes) => {
        sent.push(pushes);
        return sent.length === 1 ? new Promise(() => undefined) : Promise.resolve();
      },
      { onError: ({ message }) => void errors.push(message), timeoutMs: 20 },
    );
    coalescer.add(push(1, 1));
    await Promise.resolve();
    coalescer.add(push(2, 1));
    await coalescer.idle();
    expect(sent).toEqual([[push(1, 1)], [push(2, 1)]]);
    expect(errors).toEqual(['live events were not sent within 20 ms']);
  });
});

describe('the wire', () => {
  it('leaves out events that do not fit, in bytes', () => {
    const full = push(2, 2);
    const size = Buffer.byteLength(encodeSession(full, 1_000));
    expect(decode(encodeSession(full, size))).toEqual({ session: full });
    expect(decode(encodeSession(full, size - 1))).toEqual({ session: { sessionId: 's', lastSeq: 2 } });
  });

  it('knows its own messages only', () => {
    expect(decode(encodeCancel({ runId: 'r' }))).toEqual({ cancel: { runId: 'r' } });
    expect(['', 'x', 'null', '1', '{"s":1}', '[]'].map(decode)).toEqual(Array(6).fill(undefined));
  });
});
