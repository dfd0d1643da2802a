import { asError } from './queue-reporter.js';

describe('asError', () => {
  it('leaves an error as it is', () => {
    const error = new Error('broken');
    expect(asError(error)).toBe(error);
    expect(asError('broken')).toEqual(error);
  });

  it('keeps what was refused, and why, without what was sent', () => {
    const refused = Object.assign(new Error('WRONGPASS invalid username-password pair'), {
      name: 'ReplyError',
      code: 'X',
      command: { name: 'hello', args: ['3', 'AUTH', 'default', 'hunter2'] },
    });
    const error = asError(refused);
    expect(error).toMatchObject({ name: 'ReplyError', message: refused.message, code: 'X' });
    expect(error).not.toHaveProperty('command');
    expect(error.stack).toMatch(/^ReplyError: WRONGPASS.*\n {4}at /);
  });

  it.each([
    "ERR unknown command 'auth', with args beginning with: 'hunter2'",
    "All sentinels are unreachable. Last error: ERR unknown command `HELLO`, with args beginning with: `3` `AUTH`\n'hunter2'",
  ])('leaves out what a server repeats: %s', (message) => {
    for (const thrown of [new Error(message), message]) {
      const error = asError(thrown);
      expect(error.message).toMatch(/ERR unknown command .(auth|HELLO).$/);
      expect(`${error.message}${error.stack}`).not.toContain('hunter2');
    }
  });
});
