#!/usr/bin/env node
// Generates the Prisma client of libs/store when the schema, Prisma's version or this script changed since the last time.
// Needs no network: PRISMA_SCHEMA_ENGINE_BINARY points the CLI at the engine beside this file unless it is set already.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const require = createRequire(import.meta.url);
const output = join(root, 'libs/store/src/generated');
const stamp = join(output, '.stamp');
const prisma = require.resolve('prisma/package.json');

const hash = createHash('sha256');
for (const file of [join(root, 'prisma/schema.prisma'), prisma, fileURLToPath(import.meta.url)]) {
  hash.update(readFileSync(file));
}
const wanted = hash.digest('hex');
if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) process.exit(0);

const lock = join(root, 'node_modules/.prisma-generate.lock');
if (!locked()) process.exit(0);
try {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(prisma, '..', JSON.parse(readFileSync(prisma, 'utf8')).bin.prisma), 'generate', '--no-hints'],
    {
      cwd: root,
      encoding: 'utf8',
      env: {
        PRISMA_SCHEMA_ENGINE_BINARY: fileURLToPath(new URL('schema-engine.mjs', import.meta.url)),
        ...process.env,
        PRISMA_HIDE_UPDATE_MESSAGE: '1',
        CHECKPOINT_DISABLE: '1',
      },
    },
  );
  if (status !== 0) {
    process.stderr.write(`prisma generate failed:\n${stdout}${stderr}\n`);
    process.exitCode = status ?? 1;
  } else {
    writeFileSync(`${stamp}.new`, wanted);
    renameSync(`${stamp}.new`, stamp);
  }
} finally {
  rmSync(lock, { recursive: true, force: true });
}

/** Takes the folder lock, or waits for whoever holds it; false when the other has generated what is wanted. */
function locked() {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      mkdirSync(lock);
      return true;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return false;
    if (Date.now() > deadline) {
      // Whoever made the lock is gone.
      rmSync(lock, { recursive: true, force: true });
      continue;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  }
}
