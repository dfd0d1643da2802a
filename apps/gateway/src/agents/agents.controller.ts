import { Controller, Inject, Param } from '@nestjs/common';
import { z } from 'zod';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { notFound } from '../http/validation.js';
import { STORE, type Store } from '../tokens.js';
import { agentProfile } from './profile.schema.js';

const TAG = 'Agents';

/** Agent profiles: what a run is configured with. */
@Controller('v1/agents')
export class AgentsController {
  constructor(@Inject(STORE) private readonly store: Store) {}

  @Endpoint('GET', '', {
    summary: 'List agent profiles by name',
    tag: TAG,
    scopes: ['runs', 'admin'],
    answers: {
      200: {
        description: 'All profiles.',
        schema: z.object({ items: z.array(agentProfile) }).meta({ id: 'AgentList' }),
      },
    },
  })
  async list(@By() { tenantId }: Caller) {
    return { items: await this.store.agents.list(tenantId) };
  }

  @Endpoint('GET', ':name', {
    summary: 'Get an agent profile',
    tag: TAG,
    scopes: ['runs', 'admin'],
    answers: { 200: { description: 'The profile.', schema: agentProfile } },
  })
  async get(@By() { tenantId }: Caller, @Param('name') name: string) {
    const profile = await this.store.agents.get(tenantId, name);
    if (profile === undefined) throw notFound('agent profile', 'name');
    return profile;
  }
}
