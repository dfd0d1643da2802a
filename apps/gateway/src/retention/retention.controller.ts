import { RETAINED, type RetentionDays } from '@codedock/store';
import { Body, Controller, Inject } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { STORE, type Store } from '../tokens.js';
import { type PutRetention, putRetention, retention } from './retention.schema.js';

const TAG = 'Retention';

/** Injection token of the installation's {@link RetentionDays}. */
export const RETENTION_DEFAULTS = Symbol('RetentionDefaults');

/** How long a tenant's data is kept. */
@Controller('v1/retention')
export class RetentionController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(RETENTION_DEFAULTS) private readonly defaults: RetentionDays,
  ) {}

  @Endpoint('GET', '', {
    summary: 'Show after how many days events, audit and messages are deleted',
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'What holds for the tenant.', schema: retention } },
  })
  async get(@By() { tenantId }: Caller) {
    return this.shown(await this.store.retention.days(tenantId));
  }

  @Endpoint('PUT', '', {
    summary: "Change the tenant's own settings, those that are named; audited",
    tag: TAG,
    scopes: ['admin'],
    body: putRetention,
    answers: { 200: { description: 'What holds from now on.', schema: retention } },
  })
  async put(@By() { tenantId, keyName }: Caller, @Body() body: PutRetention) {
    return this.shown(await this.store.retention.setDays({ tenantId, days: defined(body), actor: keyName }));
  }

  private shown(own: RetentionDays) {
    return Object.fromEntries(
      RETAINED.map((kind) => {
        const source = own[kind] !== undefined ? 'tenant' : this.defaults[kind] !== undefined ? 'installation' : 'none';
        return [kind, { days: own[kind] ?? this.defaults[kind] ?? null, source }];
      }),
    );
  }
}
