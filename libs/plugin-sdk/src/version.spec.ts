import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sdkVersion } from './version.js';

it('the version told to hosts is the one of the package', () => {
  const { version } = JSON.parse(readFileSync(join(__dirname, '../package.json'), 'utf8')) as { version: string };
  expect(sdkVersion).toBe(version);
});
