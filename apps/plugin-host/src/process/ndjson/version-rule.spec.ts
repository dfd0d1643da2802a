import { majorVersion, versionProblem } from './version-rule.js';

it.each([
  ['1', 1],
  ['v1', 1],
  ['1.2', 1],
  ['v1.2.3', 1],
  [' 1.2.3 ', 1],
  ['1.2.3-beta.1+build', 1],
  ['10.0.0', 10],
])('reads %j', (text, major) => {
  expect(majorVersion(text)).toBe(major);
});

it.each(['', 'v', 'one', '1x', '-1.0', '1.2.3.4', '1..2', 'vv1', '1e3'])('does not read %j', (text) => {
  expect(majorVersion(text)).toBeUndefined();
  expect(versionProblem(text)).toMatch(/is no version, this host speaks 1\.0\.0/);
});

it('wants the same major version, and names both', () => {
  expect(versionProblem('v1.9.0')).toBeUndefined();
  expect(versionProblem('0.9.0')).toMatch(/sdk_version is 0\.9\.0, this host speaks 1\.0\.0/);
  expect(versionProblem('2.0.0')).toMatch(/major versions differ/);
});
