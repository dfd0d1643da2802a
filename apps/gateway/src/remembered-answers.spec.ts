import { RememberedAnswers } from './remembered-answers.js';

function remembering() {
  const time = { now: 0 };
  const answers = new RememberedAnswers<string>({ keepMs: 100, now: () => time.now });
  const asked: string[] = [];
  const ask = (name: string, answer = name) =>
    answers.of(name, async () => {
      asked.push(name);
      return answer;
    });
  return { time, answers, asked, ask };
}

describe('remembered answers', () => {
  it('are asked for once, by however many, until their time is over', async () => {
    const { time, asked, ask } = remembering();
    expect(await Promise.all([ask('a', 'first'), ask('a', 'second'), ask('b')])).toEqual(['first', 'first', 'b']);
    time.now = 99;
    expect(await ask('a', 'third')).toBe('first');
    time.now = 100;
    expect(await ask('a', 'fourth')).toBe('fourth');
    expect(asked).toEqual(['a', 'b', 'a']);
  });

  it('are asked for again once they are forgotten', async () => {
    const { answers, ask } = remembering();
    await ask('a', 'first');
    answers.forget('a');
    expect(await ask('a', 'second')).toBe('second');
  });

  it('are none where nobody could answer, and leave a later answer alone', async () => {
    const { answers, asked, ask } = remembering();
    let refuse: (error: Error) => void = () => undefined;
    const failing = answers.of('a', () => new Promise((_, reject) => (refuse = reject)));
    answers.forget('a');
    await ask('a', 'good');
    refuse(new Error('no database'));
    await expect(failing).rejects.toThrow('no database');
    expect(await ask('a', 'other')).toBe('good');
    await expect(answers.of('b', () => Promise.reject(new Error('no database')))).rejects.toThrow('no database');
    expect(await ask('b')).toBe('b');
    expect(asked).toEqual(['a', 'b']);
  });
});
