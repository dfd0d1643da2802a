import { Controller, Inject, Param, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { STORE, type Store } from '../tokens.js';
import { auditPage, type ListRecords, listRecords, runTrace } from './audit.schema.js';
import { stepsOf } from './steps.js';
import { waterfallOf } from './waterfall.js';

const TAG = 'Audit';

/** What every hook answered, and how long it took. */
@Controller('v1')
export class AuditController {
  constructor(@Inject(STORE) private readonly store: Store) {}

  @Endpoint('GET', 'sessions/:sessionId/hooks', {
    summary: "List a session's hook records, oldest first, inputs without a run included",
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: listRecords,
    answers: { 200: { description: 'A page of records.', schema: auditPage } },
  })
  async session(
    @By() { tenantId }: Caller,
    @Param('sessionId') sessionId: string,
    @Query() { limit, cursor }: ListRecords,
  ) {
    await this.store.sessions.get(tenantId, sessionId);
    return toPage(
      await this.store.audit.bySession({ tenantId, sessionId, limit: limit + 1, ...defined({ after: cursor }) }),
      limit,
    );
  }

  @Endpoint('GET', 'runs/:runId/hooks', {
    summary: "List a run's hook records, oldest first",
    tag: TAG,
    scopes: ['runs', 'admin'],
    query: listRecords,
    answers: { 200: { description: 'A page of records.', schema: auditPage } },
  })
  async run(@By() { tenantId }: Caller, @Param('runId') runId: string, @Query() { limit, cursor }: ListRecords) {
    await this.store.runs.get(tenantId, runId);
    return toPage(
      await this.store.audit.byRun({ tenantId, runId, limit: limit + 1, ...defined({ after: cursor }) }),
      limit,
    );
  }

  @Endpoint('GET', 'runs/:runId/trace', {
    summary: "Draw a run's gates, turns, model calls and tools as a waterfall",
    tag: TAG,
    scopes: ['runs', 'admin'],
    answers: { 200: { description: 'Gates, turns, calls and executions in order.', schema: runTrace } },
  })
  async trace(@By() { tenantId }: Caller, @Param('runId') runId: string) {
    const trace = await this.store.trace(tenantId, runId);
    const { run, turns, calls, executions } = trace;
    const gates = waterfallOf(trace);
    return { runId: run.id, status: run.status, gates, steps: stepsOf(trace, gates), turns, calls, executions };
  }
}
