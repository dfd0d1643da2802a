import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const script = resolve(__dirname, '../../scripts/check-purity.mjs');

const check = (files: Readonly<Record<string, string>>): { status: number | null; lines: string[] } => {
  const folder = mkdtempSync(join(tmpdir(), 'codedock-purity-'));
  try {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    const { status, stderr } = spawnSync(process.execPath, [script, folder], { encoding: 'utf8' });
    return { status, lines: stderr.split('\n').filter((line) => line !== '') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const events = { 'libs/domain/src/ledger-event.ts': "export interface Events { 'run.started': {} }\n" };

describe('purity of the core', () => {
  it.each([
    ['libs/domain/src/a.ts', 'export const now = Date.now();', 'Date.now'],
    ['libs/hooks/src/a.ts', 'export const dice = Math.random();', 'Math.random'],
    ['libs/hooks/src/b.ts', 'export const now = new Date();', 'new Date()'],
    ['libs/agent-loop/src/a.ts', 'export const pid = globalThis.process;', 'globalThis.process'],
    ['libs/agent-loop/src/b.ts', "export const name = 'run.started';", "'run.started'"],
    ['libs/agent-loop/src/c.ts', 'export const port = `agent/input`;', "'agent/input'"],
    ['libs/agent-loop/src/d.ts', "export const type = 'tools/denied';", "'tools/denied'"],
  ])('%s is refused: %s', (file, text, named) => {
    const { status, lines } = check({ ...events, [file]: text });
    expect(status).toBe(1);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(new RegExp(`^${file}:1: `));
    expect(lines[0]).toContain(named);
  });

  it.each([
    ['libs/agent-loop/src/a.ts', '// run.started follows agent/input\nexport const at = new Date(0);'],
    ['libs/agent-loop/src/a.spec.ts', "export const seen = ['run.started', Date.now()];"],
    ['libs/hooks/src/a.ts', "export const port = 'agent/input';"],
    ['apps/gateway/src/a.ts', 'export const now = Date.now();'],
  ])('%s is let through', (file, text) => {
    expect(check({ ...events, [file]: text })).toEqual({ status: 0, lines: [] });
  });
});
