import { z } from 'zod';
import { json } from '../http/shapes.js';

const name = z.string().min(1).max(64);

export const tool = z
  .object({
    name: z.string(),
    description: z.string(),
    parameters: json.describe('JSON Schema 2020-12 of the arguments.'),
    requiresApproval: z.boolean(),
    effect: z.enum(['pure', 'idempotent', 'effectful']).describe('effectful: executed at most once.'),
    timeoutMs: z.int(),
    plugin: z.string().optional().describe('Absent for built-in tools.'),
  })
  .meta({ id: 'Tool' });

export const listTools = z.strictObject({
  agent: name.optional().describe('As this agent profile sees them; default `default`.'),
  mode: name.optional(),
});
export type ListTools = z.infer<typeof listTools>;

export const toolList = z.object({ items: z.array(tool) }).meta({ id: 'ToolList' });
