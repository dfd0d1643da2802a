import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSocketDirectory, removeSocketDirectory, sweepSocketDirectories } from './socket-directory.js';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sweep-'));
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

describe('folders for sockets', () => {
  it('are private and go away with their content', async () => {
    const directory = await createSocketDirectory(root);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    writeFileSync(join(directory, 's'), '');
    await removeSocketDirectory(directory);
    expect(existsSync(directory)).toBe(false);
  });

  it('are swept when their host is gone, and only then', async () => {
    const mine = await createSocketDirectory(root);
    const dead = join(root, 'cdph-dead00');
    const foreign = join(root, 'other-000000');
    for (const path of [dead, foreign]) mkdirSync(path);
    const { pid } = spawnSync('/bin/true');
    writeFileSync(join(dead, '.owner'), `${pid} 1`);
    expect(await sweepSocketDirectories(root)).toBe(1);
    expect([mine, dead, foreign].map((path) => existsSync(path))).toEqual([true, false, true]);
  });
});
