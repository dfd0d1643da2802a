#!/usr/bin/env node
/**
 * Brings the database of DATABASE_URL (of DATABASE_DIRECT_URL, where a pooler stands before it) to the state that this
 * version needs, and the queue's tables too when PostgreSQL backs it. Harmless when there is nothing to do. Each URL may
 * also be in the file that `<name>_FILE` names.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareQueueSchema } from '@codedock/queue';
import { root } from './workspace/root.mjs';

const { status } = spawnSync(process.execPath, [join(root, 'libs/store/bin/codedock-migrate.cjs')], {
  stdio: 'inherit',
  env: { CODEDOCK_MIGRATIONS_DIR: join(root, 'prisma', 'migrations'), ...process.env },
});
process.exitCode = status ?? 1;
if (status === 0) {
  try {
    const queueUrl = secret('QUEUE_URL') || secret('DATABASE_DIRECT_URL') || secret('DATABASE_URL');
    if (queueUrl.startsWith('postgres')) await prepareQueueSchema(queueUrl);
  } catch (error) {
    console.error(`The queue's tables could not be made: ${error.message}`);
    process.exitCode = 1;
  }
}

function secret(name) {
  const file = process.env[`${name}_FILE`];
  return process.env[name] || (file ? readFileSync(file, 'utf8').trim() : undefined);
}
