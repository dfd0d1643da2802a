import { AppError } from '@codedock/domain';
import { Controller, Inject } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { STORE, type Store } from '../tokens.js';
import { reencryptSecrets } from './reencrypt.js';
import { reencrypted, secretKeys } from './secret.schema.js';
import type { SecretCipher } from './secret-cipher.js';

const TAG = 'Secrets';

/** Injection token of the {@link SecretCipher}; undefined without CODEDOCK_SECRETS_KEY. */
export const SECRET_CIPHER = Symbol('SecretCipher');

/** The keys under which secrets are stored, never the secrets. */
@Controller('v1/secrets')
export class SecretsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(SECRET_CIPHER) private readonly cipher: SecretCipher | undefined,
  ) {}

  @Endpoint('GET', '', {
    summary: 'Show how many secrets of the installation are under which encryption key',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    answers: { 200: { description: 'Keys by name, and counts.', schema: secretKeys } },
  })
  async keys() {
    const known = this.cipher?.keyIds ?? [];
    const counts = await this.store.secrets.counts();
    return {
      keyId: this.cipher?.keyId ?? null,
      accepted: known.slice(1),
      items: counts.map(({ kind, keyId, count }) => ({
        kind,
        keyId: keyId === '' ? null : keyId,
        count,
        readable: keyId === '' || known.includes(keyId),
      })),
    };
  }

  @Endpoint('POST', 'reencrypt', {
    summary: 'Put every secret of the installation under the newest encryption key; audited',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    answers: { 200: { description: 'What was done.', schema: reencrypted } },
    problems: ['conflict'],
  })
  async reencrypt(@By() { tenantId, keyName }: Caller) {
    if (this.cipher === undefined) {
      throw new AppError(
        'conflict',
        'There is no key to encrypt with: set CODEDOCK_SECRETS_KEY for the gateways, 32 bytes, e.g. from openssl rand -hex 32.',
      );
    }
    const done = await reencryptSecrets(this.store, this.cipher);
    await this.store.audit.admin({
      tenantId,
      actor: keyName,
      action: 'secrets.reencrypted',
      target: done.keyId,
      detail: { ...done },
    });
    return done;
  }
}
