import { definePlugin } from '../index.js';
import { readRecording, replay } from './replay.js';

const plugin = definePlugin({
  name: 'p',
  version: '1.0.0',
  onAgentInput: (input) => {
    if (input.content === 'throw') throw new Error('as told');
    return input.content === 'stop' ? input.block('no') : input.reply({ content: input.content.trim() });
  },
});

const line = (content: string, answer?: object) =>
  JSON.stringify({
    question: { type: 'agent/input', payload: { content } },
    ...(answer === undefined ? {} : { answer }),
  });

describe('replay', () => {
  it('says where a plugin decides otherwise than it did', async () => {
    const recording = readRecording(
      [
        line('stop', { type: 'input/blocked', reason: 'another wording' }),
        line('go', { type: 'input/blocked' }),
        line(' a ', { type: 'agent/input', payload: { content: 'a' } }),
        line(' a ', { type: 'agent/input' }),
        line('throw', { type: 'agent/input' }),
        '',
        line('no answer kept'),
      ].join('\n'),
    );
    const replayed = await replay(plugin, recording);
    expect(replayed.map(({ agrees }) => agrees)).toEqual([true, false, true, false, false, undefined]);
    expect(replayed.map(({ decision, error }) => decision?.decision ?? error?.message)).toEqual([
      'blocked',
      'continued',
      'changed',
      'changed',
      'as told',
      'continued',
    ]);
  });

  it.each(['{', '{"answer": {}}'])('refuses a line it cannot read: %s', (text) => {
    expect(() => readRecording(`${line('a')}\n${text}`)).toThrow('line 2 of the recording');
  });
});
