import { migrate } from '../migrate.js';
import { openStore } from '../open-store.js';
import { migrateConfig } from './config.js';

/** Applies missing migrations, then raises the chain epoch: a deployment is a change of what plugins may be. */
async function main(): Promise<void> {
  const config = migrateConfig();
  const { applied } = await migrate(config);
  const store = await openStore({ url: config.url, maxConnections: 1 });
  try {
    const { epoch } = await store.plugins.raiseEpoch('deployment');
    process.stdout.write(`migrations applied: ${applied.join(', ') || 'none'}; plugin chain epoch ${epoch}\n`);
  } finally {
    await store.close();
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`codedock-migrate: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
