import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LocalInstallation } from './local-installation.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'codedock-cli-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('a folder that nothing was started from knows nothing', async () => {
  const local = new LocalInstallation(join(folder, 'absent'));
  expect(local.url).toBeUndefined();
  expect(local.apiKeyFor('http://127.0.0.1:8080')).toBeUndefined();
  expect(await local.databaseUrl()).toBeUndefined();
});

test('the kept key is for the kept address and no other', () => {
  writeFileSync(join(folder, 'url'), 'http://127.0.0.1:8080\n');
  writeFileSync(join(folder, 'api-key'), 'cdk_first\n');
  const local = new LocalInstallation(folder);
  expect(local.url).toBe('http://127.0.0.1:8080');
  expect(local.apiKeyFor('http://127.0.0.1:8080')).toBe('cdk_first');
  expect(local.apiKeyFor('http://127.0.0.1:8081')).toBeUndefined();
  expect(local.apiKeyFor('https://codedock.example')).toBeUndefined();
});
