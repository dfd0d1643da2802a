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
  /** Names the key; tells nothing about it. */
  readonly keyId: string;
  seal(text: string, place: SecretPlace): Sealed;
  /** @throws AppError `config_invalid` when it was sealed with another key, or was changed or moved since. */
  open(sealed: Sealed, place: SecretPlace): string;
}

/** AES-256-GCM under the key of CODEDOCK_SECRETS_KEY. @throws AppError `config_invalid` when that is no key. */
export function secretCipher(keyText: string): SecretCipher {
  const key = keyBytes(keyText, KEY_BYTES);
  if (key === undefined)
    throw new AppError('config_invalid', 'CODEDOCK_SECRETS_KEY is not 32 bytes in hexadecimal or base64.');
  const keyId = createHash('sha256').update('codedock secrets key\0').update(key).digest('hex').slice(0, KEY_ID_LENGTH);
  return {
    keyId,
    seal(text, place) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES }).setAAD(placeBytes(place));
      const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return { keyId, bytes: Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]) };
    },
    open(sealed, place) {
      const { plugin, key: name } = place;
      if (sealed.keyId !== keyId) {
        throw new AppError(
          'config_invalid',
          `The secret ${name} of plugin ${plugin} was stored under another key (${sealed.keyId}) than CODEDOCK_SECRETS_KEY is now (${keyId}); set the former key again, or store the secret anew.`,
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
          `The secret ${name} of plugin ${plugin} cannot be opened: it was changed in the database; store it anew.`,
          { cause },
        );
      }
    },
  };
}

function placeBytes({ owner, plugin, key }: SecretPlace): Buffer {
  return Buffer.from(JSON.stringify([owner, plugin, key]));
}
