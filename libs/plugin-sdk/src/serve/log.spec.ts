import { logLine } from './log.js';

describe('a log line', () => {
  const now = new Date('2026-01-02T03:04:05.678Z');

  it('is one line of JSON with a time of six digits, whatever the fields are called', () => {
    expect(JSON.parse(logLine('warn', 'a\nb', { plan: 1, '@level': 'x' }, now))).toEqual({
      plan: 1,
      '@level': 'warn',
      '@message': 'a\nb',
      '@timestamp': '2026-01-02T03:04:05.678000Z',
    });
    expect(logLine('info', 'a\nb', {}, now)).not.toContain('\n');
  });

  it('survives fields that are no JSON', () => {
    const loop: Record<string, unknown> = { big: 1n };
    loop['self'] = loop;
    expect(JSON.parse(logLine('info', 'm', loop, now))).toMatchObject({ '@message': 'm' });
  });
});
