import { webhookUrl } from './webhook-url.js';

describe('the address of a webhook', () => {
  it.each([
    ['https://hooks.example.com/a?b=c', false],
    ['https://127.0.0.1/x', true],
    ['http://localhost:8080/x', true],
    ['http://[::1]:8080/x', true],
    ['https://10.0.0.1/', true],
  ])('%s is taken (private allowed: %s)', (url, allowPrivate) => {
    expect(webhookUrl(url, { allowPrivate })).toBe(url);
  });

  it.each([
    ['nonsense', true, 'no URL'],
    ['ftp://example.com/', true, 'https'],
    ['http://example.com/', true, 'https'],
    ['http://10.0.0.1/', true, 'https'],
    ['https://user:pass@example.com/', true, 'user and password'],
    ['https://example.com/#part', true, 'fragment'],
    ['https://169.254.169.254/latest', false, 'private'],
    ['https://[fd00::1]/', false, 'private'],
    ['https://[::ffff:10.0.0.1]/', false, 'private'],
    ['https://2130706433/', false, 'private'],
    ['https://0x7f.1/', false, 'private'],
    ['https://localhost/', false, 'private'],
    ['https://some.localhost/', false, 'private'],
    ['http://127.0.0.1/', false, 'private'],
  ])('%s is refused (private allowed: %s): %s', (url, allowPrivate, why) => {
    expect(() => webhookUrl(url, { allowPrivate })).toThrow(
      expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(why) }),
    );
  });
});
