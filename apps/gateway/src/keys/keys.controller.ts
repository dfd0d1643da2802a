import { type ApiKey, newApiKey } from '@codedock/store';
import { Body, Controller, Inject, Param, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { ids } from '../ids.js';
import { STORE, type Store } from '../tokens.js';
import { apiKey, apiKeyList, type CreateKey, createKey, newKey, type RotateKey, rotateKey } from './key.schema.js';

const TAG = 'Keys';

/** The tenant's API keys. The first one is made where the database is. */
@Controller('v1/keys')
export class KeysController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly idempotent: IdempotentRequests,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List API keys, oldest first, revoked and expired ones too',
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'All keys of the tenant; never the keys themselves.', schema: apiKeyList } },
  })
  async list(@By() { tenantId }: Caller) {
    return { items: (await this.store.keys.list(tenantId)).map(shown) };
  }

  @Endpoint('POST', '', {
    summary: 'Create an API key; it is shown this once; audited',
    tag: TAG,
    scopes: ['admin'],
    body: createKey,
    answers: { 201: { description: 'The key.', schema: newKey } },
    problems: ['conflict'],
    idempotent: true,
  })
  create(
    @By() { tenantId, keyName }: Caller,
    @Body() { name, scopes, expiresAt }: CreateKey,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.idempotent.answer(request, reply, async (claim) => {
      const { key, hash } = newApiKey();
      const created = await this.store.keys.create(
        { id: ids.next(), tenantId, name, hash, scopes, createdBy: keyName, ...defined({ expiresAt }) },
        claim === undefined ? undefined : { ...claim, status: 201, body: this.idempotent.kept(claim, { key }) },
      );
      return { status: 201, body: { ...shown(created), key } };
    });
  }

  @Endpoint('POST', ':keyId/rotate', {
    summary: 'Give a key a new secret, shown this once; the former one stays good for a while; audited',
    tag: TAG,
    scopes: ['admin'],
    body: rotateKey,
    answers: { 200: { description: 'The key with its new secret.', schema: newKey } },
    problems: ['conflict'],
    idempotent: true,
  })
  rotate(
    @By() { tenantId, keyName }: Caller,
    @Param('keyId') keyId: string,
    @Body() { graceSeconds, expiresAt }: RotateKey,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.idempotent.answer(request, reply, async (claim) => {
      const { key, hash } = newApiKey();
      const rotated = await this.store.keys.rotate(
        { tenantId, keyId, hash, graceMs: graceSeconds * 1_000, actor: keyName, ...defined({ expiresAt }) },
        claim === undefined ? undefined : { ...claim, status: 200, body: this.idempotent.kept(claim, { key }) },
      );
      return { status: 200, body: { ...shown(rotated), key } };
    });
  }

  @Endpoint('POST', ':keyId/revoke', {
    summary: 'Make a key useless, everywhere within seconds; again is harmless; audited',
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'The revoked key.', schema: apiKey } },
  })
  async revoke(@By() { tenantId, keyName }: Caller, @Param('keyId') keyId: string) {
    return shown(await this.store.keys.revoke(tenantId, keyId, keyName));
  }
}

function shown({ tenantId: _, ...key }: ApiKey): Omit<ApiKey, 'tenantId'> {
  return key;
}
