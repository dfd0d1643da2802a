import type { StoredAgent } from '@codedock/store';
import { Body, Controller, Inject, Param, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { invalid, notFound } from '../http/validation.js';
import { IdempotentRequests } from '../idempotency/idempotent-requests.js';
import { STORE, type Store } from '../tokens.js';
import {
  agentList,
  type CreateAgent,
  createAgent,
  type ReplaceAgent,
  replaceAgent,
  storedAgent,
} from './agent.schema.js';
import { AgentProfiles } from './agent-profiles.js';
import { tagOf, versionOf } from './if-match.js';
import { asProfile } from './profile.schema.js';

const TAG = 'Agents';
/** Profiles of one tenant's own. */
const MAX_AGENTS = 1_000;

/** Agent profiles: what a run is configured with. A tenant's own lie over the installation's. */
@Controller('v1/agents')
export class AgentsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly profiles: AgentProfiles,
    private readonly idempotent: IdempotentRequests,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List agent profiles by name',
    tag: TAG,
    scopes: ['runs', 'admin'],
    answers: { 200: { description: 'All profiles.', schema: agentList } },
  })
  async list(@By() { tenantId }: Caller) {
    return { items: (await this.store.agents.describeAll(tenantId)).map(shown) };
  }

  @Endpoint('GET', ':name', {
    summary: 'Get an agent profile; its `ETag` is its version',
    tag: TAG,
    scopes: ['runs', 'admin'],
    answers: { 200: { description: 'The profile.', schema: storedAgent } },
  })
  async get(@By() { tenantId }: Caller, @Param('name') name: string, @Res({ passthrough: true }) reply: FastifyReply) {
    const agent = await this.store.agents.describe(tenantId, name);
    if (agent === undefined) throw notFound('agent profile', 'name');
    reply.header('etag', tagOf(agent.version));
    return shown(agent);
  }

  @Endpoint('POST', '', {
    summary: "Create an agent profile; it lies over the installation's of the same name; audited",
    tag: TAG,
    scopes: ['admin'],
    body: createAgent,
    answers: { 201: { description: 'The profile.', schema: storedAgent } },
    problems: ['conflict'],
    idempotent: true,
  })
  create(
    @By() { tenantId, keyName }: Caller,
    @Body() body: CreateAgent,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    return this.idempotent.answer(request, reply, async (claim) => {
      const created = await this.store.agents.create(
        { tenantId, profile: asProfile(body), maxAgents: MAX_AGENTS, actor: keyName },
        claim === undefined ? undefined : { ...claim, status: 201, body: {} },
      );
      this.profiles.forget(tenantId, body.name);
      reply.header('etag', tagOf(created.version));
      return { status: 201, body: shown(created) };
    });
  }

  @Endpoint('PUT', ':name', {
    summary:
      "Replace one of the tenant's own profiles; `If-Match` names the version; runs keep what they have; audited",
    tag: TAG,
    scopes: ['admin'],
    body: replaceAgent,
    answers: { 200: { description: 'The profile.', schema: storedAgent } },
    problems: ['conflict'],
  })
  async replace(
    @By() { tenantId, keyName }: Caller,
    @Param('name') name: string,
    @Body() body: ReplaceAgent,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    if (body.name !== undefined && body.name !== name) {
      throw invalid('body', [{ path: '/name', message: 'is not the name in the address; a profile keeps its name' }]);
    }
    const replaced = await this.store.agents.replace({
      tenantId,
      name,
      profile: asProfile({ ...body, name }),
      actor: keyName,
      ...versioned(request),
    });
    this.profiles.forget(tenantId, name);
    reply.header('etag', tagOf(replaced.version));
    return shown(replaced);
  }

  @Endpoint('DELETE', ':name', {
    summary: "Delete one of the tenant's own profiles; `If-Match` names the version; audited",
    tag: TAG,
    scopes: ['admin'],
    answers: { 204: { description: "It is gone; the installation's of that name, if any, holds again." } },
    problems: ['conflict'],
  })
  async delete(
    @By() { tenantId, keyName }: Caller,
    @Param('name') name: string,
    @Req() request: FastifyRequest,
  ): Promise<void> {
    await this.store.agents.remove({ tenantId, name, actor: keyName, ...versioned(request) });
    this.profiles.forget(tenantId, name);
  }
}

function versioned(request: FastifyRequest): { readonly version?: number } {
  const version = versionOf(request.headers['if-match']);
  return version === undefined ? {} : { version };
}

function shown({ profile, ...about }: StoredAgent): object {
  return { ...profile, ...about };
}
