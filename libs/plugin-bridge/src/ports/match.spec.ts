import { compileMatch, type MatchSubject } from './match.js';

const subject: MatchSubject = { tenant: 'acme', agent: 'coder', mode: 'fast', tool: 'shell_exec' };

describe('a match', () => {
  it.each([
    ['{"tenants":["acme"]}', true],
    ['{"tenants":["ac*"]}', true],
    ['{"tenants":["Acme"]}', false],
    ['{"agents":["code?"]}', true],
    ['{"agents":["code"]}', false],
    ['{"modes":["fast","slow"],"tools":["shell_*"]}', true],
    ['{"modes":["slow"],"tools":["shell_*"]}', false],
    ['{"tools":["a.b","s+ell_exec"]}', false],
    ['{"tools":[]}', false],
  ])('%s holds: %s', (json, expected) => {
    expect(compileMatch(json)?.(subject)).toBe(expected);
  });

  it('restricts nothing when empty, without lists or unreadable', () => {
    for (const json of ['', '{}', 'nonsense', '[]', 'null']) expect(compileMatch(json)).toBeUndefined();
  });

  it('does not look at tools where the gate is about none', () => {
    const { tool: _, ...gate } = subject;
    expect(compileMatch('{"tools":["other"]}')?.(gate)).toBe(true);
  });
});
