import { plugin } from '@codedock/proto';
import { Emitter } from './emitter.js';

const event = (type: string) =>
  plugin.Envelope.fromPartial({ type, capability: Buffer.from('c'), payload: Buffer.from('{}') });

describe('emitting', () => {
  it('delivers to others, without what the emitter may not pass on', () => {
    const delivered: unknown[] = [];
    new Emitter('a', (...parts) => delivered.push(parts)).emit(event('scan.found'), 1);
    expect(delivered).toEqual([
      [
        expect.objectContaining({ type: 'scan.found', capability: Buffer.alloc(0), payload: Buffer.from('{}') }),
        'a',
        1,
      ],
    ]);
  });

  it.each(['agent/input', 'tools/denied', 'run/aborted', 'run.started', 'assistant.delta', '', 'x'.repeat(129)])(
    'refuses the type %s',
    (type) => {
      expect(() => new Emitter('a', () => undefined).emit(event(type), 1)).toThrow(/^Emit: /);
    },
  );

  it('refuses cycles and floods', () => {
    const emitter = new Emitter(
      'a',
      () => undefined,
      () => 0,
    );
    expect(() => emitter.emit(event('x'), 3)).toThrow(/2 deep/);
    for (let number = 0; number < 50; number++) emitter.emit(event('x'), 1);
    expect(() => emitter.emit(event('x'), 1)).toThrow(/50 events a second/);
  });
});
