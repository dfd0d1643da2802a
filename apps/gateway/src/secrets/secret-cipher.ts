import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { AppError } from '@codedock/domain';
import { keyBytes } from '@codedock/platform';

const ALGORITHM = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_LENGTH = 16;

/** Where a secret belongs. It is part of what is authenticated: a ciphertext copied to another place cannot be opened. */
export interface SecretPlace {
  /** The tenant it is stored for. */
  readonly owner: string;
  /** The plugin; of what belongs to none, a word that no plugin can be called. */
  readonly plugin: string;
  readonly key: string;
}

/** An encrypted secret: nonce, ciphertext and tag, and the name of the key. */
export interface Sealed {
  readonly keyId: string;
  readonly bytes: Uint8Array;
}

/** Encrypts and opens secrets. */
export interface SecretCipher {
  /** Names the key that encrypts; tells nothing about it. */
  readonly keyId: string;
  /** Names of all keys that open, the one that encrypts first. */
  readonly keyIds: readonly string[];
  seal(text: string, place: SecretPlace): Sealed;
  /** @throws AppError `config_invalid` when it was sealed with a key that is not known, or was changed or moved since. */
  open(sealed: Sealed, place: SecretPlace): string;
}

/**
 * AES-256-GCM: encrypts under the key of CODEDOCK_SECRETS_KEY, opens under that one and the accepted ones.
 * @throws AppError `config_invalid` when one of them is no key.
 */
export function secretCipher(keyText: string, accepted: readonly string[] = []): SecretCipher {
  const ring = new Map<string, Buffer>();
  for (const [index, text] of [keyText, ...accepted].entries()) {
    const key = keyBytes(text, KEY_BYTES);
    const name = index === 0 ? 'CODEDOCK_SECRETS_KEY is' : `Key ${index} of CODEDOCK_SECRETS_KEYS_ACCEPTED is`;
    if (key === undefined) throw new AppError('config_invalid', `${name} not 32 bytes in hexadecimal or base64.`);
    ring.set(keyIdOf(key), key);
  }
  const keyIds = [...ring.keys()];
  const [keyId = ''] = keyIds;
  const newest = ring.get(keyId) as Buffer;
  return {
    keyId,
    keyIds,
    seal(text, place) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, newest, nonce, { authTagLength: TAG_BYTES }).setAAD(placeBytes(place));
      const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return { keyId, bytes: Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]) };
    },
    open(sealed, place) {
      const key = ring.get(sealed.keyId);
      if (key === undefined) {
        throw new AppError(
          'config_invalid',
          `The ${wordsFor(place)} was stored under another key (${sealed.keyId}) than CODEDOCK_SECRETS_KEY is now (${keyId}); give the former key in CODEDOCK_SECRETS_KEYS_ACCEPTED, or store the secret anew.`,
        );
      }
      const bytes = Buffer.from(sealed.bytes);
      try {
        const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAAD(placeBytes(place)).setAuthTag(bytes.subarray(-TAG_BYTES));
        const text = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
        return Buffer.concat([text, decipher.final()]).toString('utf8');
      } catch (cause) {
        throw new AppError(
          'config_invalid',
          `The ${wordsFor(place)} cannot be opened: it was changed in the database; store it anew.`,
          { cause },
        );
      }
    },
  };
}

function keyIdOf(key: Buffer): string {
  return createHash('sha256').update('codedock secrets key\0').update(key).digest('hex').slice(0, KEY_ID_LENGTH);
}

function placeBytes({ owner, plugin, key }: SecretPlace): Buffer {
  return Buffer.from(JSON.stringify([owner, plugin, key]));
}

function wordsFor({ plugin, key }: SecretPlace): string {
  return plugin.startsWith('/') ? `secret of ${plugin.slice(1)} ${key}` : `secret ${key} of plugin ${plugin}`;
}
