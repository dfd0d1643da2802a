import { z } from 'zod';
import { instant } from '../http/shapes.js';
import { agentProfile } from './profile.schema.js';

export const createAgent = agentProfile;
export type CreateAgent = z.infer<typeof createAgent>;

export const replaceAgent = agentProfile
  .omit({ name: true })
  .extend({ name: z.string().optional().describe('As in the address, if it is there.') })
  .meta({ id: 'ReplaceAgent' });
export type ReplaceAgent = z.infer<typeof replaceAgent>;

export const storedAgent = agentProfile
  .extend({
    source: z
      .enum(['tenant', 'installation'])
      .describe("The tenant's own, or from the profiles file; the latter is changed there."),
    version: z.int().describe('Raised with every change; in quotes it is the ETag.'),
    updatedAt: instant,
  })
  .meta({ id: 'StoredAgent' });

export const agentList = z.object({ items: z.array(storedAgent) }).meta({ id: 'AgentList' });
