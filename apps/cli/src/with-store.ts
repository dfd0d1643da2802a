import { openStore, type Store } from '@codedock/store';
import { config } from './config.js';

/** Works on the database itself and closes it again. */
export async function withStore<T>(use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore({ url: await config.databaseUrl(), maxConnections: 1 });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}
