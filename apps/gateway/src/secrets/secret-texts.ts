import { AppError } from '@codedock/domain';
import type { SecretCipher, SecretPlace } from './secret-cipher.js';

const SEALED = /^sealed:([0-9a-f]{16}):([A-Za-z0-9+/]+={0,2})$/;

/** Where the secret of a webhook belongs. */
export function webhookPlace(tenantId: string, webhookId: string): SecretPlace {
  return { owner: tenantId, plugin: '/webhook', key: webhookId };
}

/** Where a secret belongs that the answer of an idempotent request holds. */
export function answerPlace(tenantId: string, idempotencyKey: string): SecretPlace {
  return { owner: tenantId, plugin: '/answer', key: idempotencyKey };
}

/** Secrets in columns of text: `sealed:<key id>:<base64>`, or as they are where there is no key to encrypt with. */
export class SecretTexts {
  constructor(private readonly cipher: SecretCipher | undefined) {}

  /** Whether what is sealed is encrypted. */
  get encrypts(): boolean {
    return this.cipher !== undefined;
  }

  seal(text: string, place: SecretPlace): string {
    if (this.cipher === undefined) return text;
    const { keyId, bytes } = this.cipher.seal(text, place);
    return `sealed:${keyId}:${Buffer.from(bytes).toString('base64')}`;
  }

  /** @throws AppError `config_invalid` when it was sealed with a key that is not known, or was changed or moved since. */
  open(stored: string, place: SecretPlace): string {
    const [, keyId, bytes] = SEALED.exec(stored) ?? [];
    if (keyId === undefined || bytes === undefined) return stored;
    if (this.cipher !== undefined) return this.cipher.open({ keyId, bytes: Buffer.from(bytes, 'base64') }, place);
    throw new AppError(
      'config_invalid',
      `A secret was stored under the key ${keyId}, and CODEDOCK_SECRETS_KEY is not set for the gateway; set that key again.`,
    );
  }
}
