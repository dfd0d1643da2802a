/** Generates the protocol code into a temporary folder and compares it with what is committed in libs/proto/src/gen. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const proto = fileURLToPath(new URL('../libs/proto', import.meta.url));
const committed = join(proto, 'src/gen');
const fresh = mkdtempSync(join(tmpdir(), 'codedock-proto-'));

const filesOf = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(folder.length + 1))
    : [];

try {
  const { status } = spawnSync('npx', ['buf', 'generate', '--output', fresh], {
    cwd: proto,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (status !== 0) throw new Error('buf generate failed');
  const generated = join(fresh, 'src/gen');
  const different = [...new Set([...filesOf(committed), ...filesOf(generated)])].filter((file) => {
    const [old, now] = [join(committed, file), join(generated, file)];
    return !existsSync(old) || !existsSync(now) || readFileSync(old, 'utf8') !== readFileSync(now, 'utf8');
  });
  for (const file of different) console.error(`libs/proto/src/gen/${file} is stale`);
  process.exitCode = different.length === 0 ? 0 : 1;
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
