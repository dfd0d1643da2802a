import { z } from 'zod';
import { json } from '../http/shapes.js';

export const tool = z
  .object({
    name: z.string(),
    description: z.string(),
    parameters: json.describe('JSON Schema 2020-12 of the arguments.'),
    requiresApproval: z.boolean(),
    effect: z.enum(['pure', 'idempotent', 'effectful']).describe('effectful: executed at most once.'),
    timeoutMs: z.int(),
    plugin: z.string().optional().describe('Absent for built-in tools.'),
    live: z.boolean().describe('False while its plugin is down: calls fail fast.'),
  })
  .meta({ id: 'Tool' });

export const toolList = z.object({ items: z.array(tool) }).meta({ id: 'ToolList' });
