import { join } from 'node:path';
import { startEmbeddedPostgres } from '@codedock/embedded';
import { prepareQueueSchema } from '@codedock/queue';
import { migrate } from '@codedock/store';
import { root } from '../workspace/root.mjs';
import { say } from './output.mjs';

/** The database of DATABASE_URL, else the embedded one in the data folder; migrated. */
export async function startDatabase(folder) {
  const given = process.env.DATABASE_URL;
  const embedded = given ? undefined : await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
  try {
    const url = given ?? embedded.url;
    const queueUrl = process.env.QUEUE_URL ?? url;
    await migrate({ url, dir: join(root, 'prisma', 'migrations') });
    if (queueUrl.startsWith('postgres')) await prepareQueueSchema(queueUrl);
    say(
      embedded
        ? `PostgreSQL on 127.0.0.1:${embedded.port}, data in ${join(folder, 'postgres')}`
        : 'PostgreSQL of DATABASE_URL',
    );
    return { url, queueUrl, stop: async () => embedded?.stop() };
  } catch (error) {
    await embedded?.stop();
    throw error;
  }
}
