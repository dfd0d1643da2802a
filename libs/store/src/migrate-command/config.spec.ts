import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { migrateConfig } from './config.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'codedock-migrate-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const target = path.join(folder, name);
  writeFileSync(target, content);
  return target;
}

describe('the configuration of the migrations', () => {
  const direct = 'postgresql://direct/codedock';
  const pooled = 'postgresql://pooled/codedock';

  it.each([
    ['the URL', { DATABASE_URL: pooled }, pooled],
    ['the direct URL before a pooler’s', { DATABASE_URL: pooled, DATABASE_DIRECT_URL: direct }, direct],
    ['the other where one is empty', { DATABASE_URL: pooled, DATABASE_DIRECT_URL: '' }, pooled],
  ])('is %s', (_, environment, expected) => {
    expect(migrateConfig(environment).url).toBe(expected);
  });

  it('may be in files, as secrets are mounted', () => {
    expect(migrateConfig({ DATABASE_URL_FILE: file('url', `${pooled}\n`) }).url).toBe(pooled);
    expect(migrateConfig({ DATABASE_URL: pooled, DATABASE_DIRECT_URL_FILE: file('direct', `${direct}\n`) }).url).toBe(
      direct,
    );
  });

  it('names the variable whose file cannot be read', () => {
    const missing = path.join(folder, 'none');
    expect(() => migrateConfig({ DATABASE_URL_FILE: missing })).toThrow(/^DATABASE_URL_FILE is ".*none": .*\(ENOENT\)/);
  });

  it('is refused without a URL of PostgreSQL', () => {
    expect(() => migrateConfig({})).toThrow(/DATABASE_URL must be/);
    expect(() => migrateConfig({ DATABASE_URL_FILE: file('mysql', 'mysql://x') })).toThrow(/DATABASE_URL must be/);
  });
});
