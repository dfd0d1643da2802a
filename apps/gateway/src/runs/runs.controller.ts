import { cancelRun, startRun as start } from '@codedock/runs';
import { Body, Controller, Inject, Param, Query, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AgentProfiles } from '../agents/agent-profiles.js';
import { DEFAULT_AGENT } from '../agents/read-profiles.js';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';

import { defined, toPage } from '../http/shapes.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { RunAdmission } from '../limits/run-admission.js';
import { EnqueueSpan } from '../telemetry/enqueue-span.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts, STORE, type Store } from '../tokens.js';
import { noticingBus } from './plugin-notices.js';
import { type ListRuns, listRuns, run, runPage, type StartRun, startedRun, startRun } from './run.schema.js';
import { requireInput } from './run-input.js';

const TAG = 'Runs';

/** Runs: what an agent does with one input. */
@Controller('v1')
export class RunsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
    private readonly agents: AgentProfiles,
    private readonly idempotent: IdempotentRequests,
    private readonly admission: RunAdmission,
  ) {}

  @Endpoint('POST', 'sessions/:sessionId/runs', {
    summary: 'Send input: starts a run unless a policy handles or blocks it',
    tag: TAG,
    scopes: ['runs'],
    body: startRun,
    answers: {
      201: { description: 'The run, queued or pending.', schema: startedRun },
      200: { description: 'A policy handled the input; `runId` and `run` are null.', schema: startedRun },
    },
    problems: ['session_busy', 'session_archived', 'hook_blocked', 'gate_timeout', 'gate_unavailable'],
    idempotent: true,
  })
  async start(
    @By() caller: Caller,
    @Param('sessionId') sessionId: string,
    @Body() body: StartRun,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { tenantId, keyId, keyName } = caller;
    const { content, mode, onBusy, metadata, agent = DEFAULT_AGENT } = body;
    return this.idempotent.answer(request, reply, async (claim) => {
      this.admission.check();
      const enqueue = new EnqueueSpan();
      const input = {
        tenantId,
        sessionId,
        content,
        actor: { id: keyId, name: keyName },
        requestId: request.id,
        trace: () => enqueue.begin(),
        limits: this.admission.pending,
        configure: (event: { content: string; mode?: string }) => {
          requireInput(event);
          return this.agents.configuration(tenantId, agent, event.mode);
        },
        ...defined({ mode, onBusy, metadata, idempotency: claim }),
      };
      const principal = { tenant: tenantId, key: keyName, agent, metadata: metadata ?? {}, ...defined({ mode }) };
      const ports = {
        ...this.ports,
        bus: noticingBus(this.ports.bus, this.hosts, principal),
        doorbell: this.admission.doorbell(tenantId, this.ports.doorbell),
      };
      const started = await start(ports, input, new AbortController().signal).catch((error: unknown) => {
        enqueue.end(undefined);
        throw error;
      });
      enqueue.end(started.kind === 'handled' ? undefined : started.run.id);
      if (started.kind === 'started') this.admission.took(started.run);
      return started.kind === 'handled'
        ? { status: 200, body: { handled: true, runId: null, run: null } }
        : { status: 201, body: { handled: false, runId: started.run.id, run: started.run } };
    });
  }

  @Endpoint('GET', 'sessions/:sessionId/runs', {
    summary: "List a session's runs, newest first",
    tag: TAG,
    scopes: ['runs'],
    query: listRuns,
    answers: { 200: { description: 'A page of runs.', schema: runPage } },
  })
  async list(
    @By() { tenantId }: Caller,
    @Param('sessionId') sessionId: string,
    @Query() { limit, cursor, status }: ListRuns,
  ) {
    await this.store.sessions.get(tenantId, sessionId);
    const found = await this.store.runs.list({
      tenantId,
      sessionId,
      limit: limit + 1,
      ...defined({ before: cursor, status }),
    });
    return toPage(found, limit);
  }

  @Endpoint('GET', 'runs/:runId', {
    summary: 'Get a run with its newest `seq`',
    tag: TAG,
    scopes: ['runs', 'approvals'],
    answers: { 200: { description: 'The run.', schema: run } },
  })
  get(@By() { tenantId }: Caller, @Param('runId') runId: string) {
    return this.store.runs.get(tenantId, runId);
  }

  @Endpoint('POST', 'runs/:runId/cancel', {
    summary: 'Cancel a run within a second; the answer is the state that won',
    tag: TAG,
    scopes: ['runs'],
    answers: { 200: { description: 'The run in its final state.', schema: run } },
  })
  cancel(@By() { tenantId, keyName }: Caller, @Param('runId') runId: string) {
    return cancelRun(this.ports, { tenantId, runId, actor: keyName });
  }
}
