import { plugin } from '@codedock/proto';
import type { AskResult } from '../session/plugin-session.js';
import { envelopeJson, envelopeOf } from './envelope-json.js';
import { Recorder } from './recorder.js';

const question = (tenant: string, content: string) =>
  plugin.Envelope.fromPartial({
    type: 'agent/input',
    sessionId: 's1',
    payload: Buffer.from(JSON.stringify({ content, api_key: 'canary-value' })),
    principal: Buffer.from(JSON.stringify({ tenant })),
    capability: Buffer.from('canary-capability'),
  });
const answered = (type: string): Promise<AskResult> =>
  Promise.resolve({ kind: 'answered', reply: plugin.Envelope.fromPartial({ type, reason: 'no' }), queueMs: 0 });

function watched(recorder: Recorder, name: string, tenant: string) {
  const lines: string[] = [];
  let ended = false;
  const subscription = recorder.watch(name, tenant).subscribe({
    next: ({ json }) => lines.push(json),
    complete: () => {
      ended = true;
    },
  });
  return { lines, subscription, hasEnded: () => ended };
}

describe('a recorder', () => {
  it('shows a question with its answer to who asked for that plugin and that tenant', async () => {
    const recorder = new Recorder();
    const mine = watched(recorder, 'policy', 'acme');
    const others = [watched(recorder, 'policy', 'other'), watched(recorder, 'second', 'acme')];
    recorder.asked('policy', question('acme', 'hello'), answered('input/blocked'));
    recorder.asked('policy', question('acme', 'again'), Promise.resolve({ kind: 'cancelled' }));
    recorder.told('policy', plugin.Envelope.fromPartial({ ...question('acme', 'x'), type: 'run.started' }));
    await new Promise(setImmediate);
    const shown = mine.lines.map((line) => JSON.parse(line) as Record<string, object>);
    expect(shown.map(({ question: asked }) => asked)).toMatchObject([
      { type: 'run.started' },
      { type: 'agent/input', payload: { content: 'hello' }, principal: { tenant: 'acme' } },
      { type: 'agent/input', payload: { content: 'again' } },
    ]);
    expect(shown[1]?.['answer']).toEqual({ type: 'input/blocked', reason: 'no' });
    expect(shown[2]?.['failed']).toMatchObject({ outcome: 'cancelled' });
    expect(others.map(({ lines }) => lines)).toEqual([[], []]);
  });

  it('takes secrets and the capability out', async () => {
    const recorder = new Recorder();
    const { lines } = watched(recorder, 'policy', 'acme');
    recorder.asked('policy', question('acme', 'my key is AKIAIOSFODNN7EXAMPLE'), answered(''));
    await new Promise(setImmediate);
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toMatch(/canary|AKIAIOSFODNN7EXAMPLE/);
    expect(lines[0]).toContain('my key is [redacted]');
  });

  it('does nothing for a plugin nobody looks at, and ends with the host', async () => {
    const recorder = new Recorder();
    const { lines, subscription } = watched(recorder, 'policy', 'acme');
    subscription.unsubscribe();
    recorder.asked('policy', question('acme', 'hello'), answered(''));
    await new Promise(setImmediate);
    expect(lines).toEqual([]);
    const last = watched(recorder, 'policy', 'acme');
    recorder.close();
    expect(last.hasEnded()).toBe(true);
    expect(watched(recorder, 'policy', 'acme').hasEnded()).toBe(true);
  });
});

it('an envelope that was written down is the same again, but for its capability', () => {
  const envelope = plugin.Envelope.fromPartial({
    ...question('acme', 'hello'),
    chainId: 'c',
    seen: ['a', 'b'],
    runId: 'r',
    turnId: 't',
    context: Buffer.from('{"a.b":1}'),
    reason: 'why',
    budgetMs: 5,
    attempt: 2,
    skipResult: Buffer.from('"instead"'),
    eventId: 'e',
    eventSeq: 3,
  });
  expect(envelopeOf(envelopeJson(envelope))).toEqual({ ...envelope, capability: Buffer.alloc(0) });
});
