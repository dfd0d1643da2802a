import { isAppError } from '@codedock/domain';
import type { StaleSecret, Store } from '@codedock/store';
import type { SecretCipher, SecretPlace } from './secret-cipher.js';
import { SecretTexts, webhookPlace } from './secret-texts.js';

const BATCH = 200;

/** What became of the secrets that were not under the newest key. */
export interface Reencrypted {
  /** Names the key that all of them are under now. */
  readonly keyId: string;
  readonly pluginSecrets: number;
  readonly webhooks: number;
  /** Those whose key is not known, or that were changed in the database: they stay as they are. */
  readonly unreadable: number;
}

/**
 * Puts every secret under the newest key: those of plugins, and of webhooks also where they are not encrypted yet. A
 * secret that is changed meanwhile keeps its change. May be interrupted and done again.
 */
export async function reencryptSecrets(store: Pick<Store, 'secrets'>, cipher: SecretCipher): Promise<Reencrypted> {
  const texts = new SecretTexts(cipher);
  let unreadable = 0;
  /** Walks over one kind; returns how many are under the newest key now. */
  async function walk<S extends StaleSecret>(
    read: (after: string) => Promise<readonly S[]>,
    replace: (stale: S) => Promise<boolean>,
  ): Promise<number> {
    let done = 0;
    for (let after = ''; ; ) {
      const page = await read(after);
      for (const stale of page) {
        try {
          if (await replace(stale)) done += 1;
        } catch (error) {
          if (!isAppError(error, 'config_invalid')) throw error;
          unreadable += 1;
        }
        after = stale.cursor;
      }
      if (page.length < BATCH) return done;
    }
  }
  const pluginSecrets = await walk(
    (after) => store.secrets.stalePluginSecrets({ keyId: cipher.keyId, after, limit: BATCH }),
    (stale) => {
      const place: SecretPlace = { owner: stale.tenantId, plugin: stale.plugin, key: stale.key };
      return store.secrets.replacePluginSecret(stale, cipher.seal(cipher.open(stale.sealed, place), place));
    },
  );
  const webhooks = await walk(
    (after) => store.secrets.staleWebhooks({ keyId: cipher.keyId, after, limit: BATCH }),
    (stale) => {
      const place = webhookPlace(stale.tenantId, stale.webhookId);
      return store.secrets.replaceWebhook(stale, texts.seal(texts.open(stale.secret, place), place));
    },
  );
  return { keyId: cipher.keyId, pluginSecrets, webhooks, unreadable };
}
