import type { LedgerEvent } from '@codedock/domain';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import fc from 'fast-check';
import { HEARTBEAT_FRAME, OPENING_FRAME, sseFrame } from './sse-frame.js';

function delta(seq: number, text: string): LedgerEvent {
  return {
    eventId: `e${seq}`,
    sessionId: 's',
    runId: 'r',
    seq,
    type: 'assistant.delta',
    version: 1,
    occurredAt: '2026-01-01T00:00:00.000Z',
    payload: { text },
  };
}

function parse(stream: string, cut: number): EventSourceMessage[] {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => messages.push(message) });
  for (let at = 0; at < stream.length; at += cut) parser.feed(stream.slice(at, at + cut));
  return messages;
}

describe('sseFrame', () => {
  it('survives any text and any chunking, one frame per event', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary' }), { maxLength: 5 }),
        fc.integer({ min: 1, max: 40 }),
        (texts, cut) => {
          const frames = texts.map((text, index) => sseFrame(delta(index + 1, text)));
          const messages = parse(OPENING_FRAME + frames.join(HEARTBEAT_FRAME) + HEARTBEAT_FRAME, cut);
          expect(messages.map((message) => JSON.parse(message.data).payload.text)).toEqual(texts);
          expect(messages.map((message) => message.id)).toEqual(texts.map((_, index) => String(index + 1)));
        },
      ),
    );
  });

  it('cannot be made to look like two events by what a tool says', () => {
    const [only, ...more] = parse(sseFrame(delta(7, 'x\n\nevent: run.completed\ndata: {}\nid: 99\n\n')), 1000);
    expect(more).toEqual([]);
    expect(only).toMatchObject({ id: '7', event: 'assistant.delta' });
  });

  it('leaves absent members out', () => {
    const frame = sseFrame(delta(1, 'a'));
    expect(Object.keys(JSON.parse(frame.split('data: ')[1] ?? ''))).toEqual([
      'eventId',
      'sessionId',
      'runId',
      'seq',
      'type',
      'version',
      'occurredAt',
      'payload',
    ]);
  });
});
