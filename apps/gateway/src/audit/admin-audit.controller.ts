import { INSTALLATION } from '@codedock/store';
import { Controller, Inject, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Operators } from '../auth/operators.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { STORE, type Store } from '../tokens.js';
import { adminActPage, type ListAdminActs, listAdminActs } from './admin-audit.schema.js';

/** What administrators, and the system on their behalf, have done. */
@Controller('v1/audit')
export class AdminAuditController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly operators: Operators,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List acts of administrators, newest first',
    tag: 'Audit',
    scopes: ['admin'],
    query: listAdminActs,
    answers: { 200: { description: 'A page of acts.', schema: adminActPage } },
  })
  async list(@By() caller: Caller, @Query() { limit, cursor, of, action, target }: ListAdminActs) {
    if (of === 'installation') this.operators.require(caller);
    const found = await this.store.audit.acts({
      tenantId: of === 'installation' ? INSTALLATION : caller.tenantId,
      limit: limit + 1,
      ...defined({ before: cursor, action, target }),
    });
    return toPage(found, limit);
  }
}
