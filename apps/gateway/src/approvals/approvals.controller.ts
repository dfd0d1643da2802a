import { decideApproval as decide, sealedDecisions } from '@codedock/runs';
import { Body, Controller, Inject, Param, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined, toPage } from '../http/shapes.js';
import { notFound } from '../http/validation.js';
import { noticingBus } from '../runs/plugin-notices.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts, STORE, type Store } from '../tokens.js';
import {
  approval,
  approvalPage,
  type DecideApproval,
  decideApproval,
  type ListApprovals,
  listApprovals,
} from './approval.schema.js';
import { decisionJudge } from './decision-judge.js';
import { decisionsOf } from './decisions.js';

const TAG = 'Approvals';

/** Tool calls that wait for a person. */
@Controller('v1/approvals')
export class ApprovalsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List approvals across sessions, newest first',
    tag: TAG,
    scopes: ['approvals', 'runs'],
    query: listApprovals,
    answers: { 200: { description: 'A page of approvals.', schema: approvalPage } },
  })
  async list(@By() { tenantId }: Caller, @Query() { limit, cursor, ...filter }: ListApprovals) {
    const found = await this.store.approvals.list({
      tenantId,
      limit: limit + 1,
      ...defined({ before: cursor, ...filter }),
    });
    return toPage(found, limit);
  }

  @Endpoint('GET', ':approvalId', {
    summary: 'Get an approval: what would be executed, and who asked why',
    tag: TAG,
    scopes: ['approvals', 'runs'],
    answers: { 200: { description: 'The approval.', schema: approval } },
  })
  get(@By() { tenantId }: Caller, @Param('approvalId') approvalId: string) {
    return this.store.approvals.get(tenantId, approvalId);
  }

  @Endpoint('POST', ':approvalId/decisions', {
    summary: 'Approve or deny calls; the same decision again gets the same answer',
    tag: TAG,
    scopes: ['approvals'],
    body: decideApproval,
    answers: { 200: { description: 'The approval with its decisions so far.', schema: approval } },
    problems: ['approval_decided', 'conflict', 'run_ended'],
  })
  async decide(
    @By() { tenantId, keyId, keyName }: Caller,
    @Param('approvalId') approvalId: string,
    @Body() body: DecideApproval,
  ) {
    const asked = decisionsOf(body);
    const found = await this.store.approvals.get(tenantId, approvalId);
    const run = await this.store.runs.ending(found.runId);
    if (run === undefined) throw notFound('approval');
    const decisions = sealedDecisions(found, asked, decisionJudge(this.hosts, run.principal));
    const ports = { ...this.ports, bus: noticingBus(this.ports.bus, this.hosts, run.principal) };
    return decide(ports, { tenantId, approvalId, actor: { id: keyId, name: keyName }, decisions });
  }
}
