import { z } from 'zod';
import { instant, page } from '../http/shapes.js';
import { MAX_MEMORY_NAME, MAX_MEMORY_TEXT } from './memory-bounds.js';

const which = {
  scope: z.enum(['session', 'user', 'tenant']).describe("A session's, an end user's, or the tenant's."),
  owner: z
    .string()
    .min(1)
    .max(MAX_MEMORY_NAME)
    .optional()
    .describe('Id of the session, or name of the user; not for the tenant.'),
};

type Which = { readonly scope: 'session' | 'user' | 'tenant'; readonly owner?: string | undefined };
const fits = ({ scope, owner }: Which) => (scope === 'tenant') === (owner === undefined);
const OWNER = { path: ['owner'], message: 'is needed for a session or a user, and not allowed for the tenant' };

export const whoseMemory = z.strictObject(which).refine(fits, OWNER);
export type WhoseMemory = z.infer<typeof whoseMemory>;

export const listMemory = z
  .strictObject({
    ...which,
    limit: page.limit,
    cursor: z.string().min(1).max(MAX_MEMORY_NAME).optional().describe('`nextCursor` of the former page.'),
    query: z
      .string()
      .min(1)
      .max(MAX_MEMORY_NAME)
      .optional()
      .describe('Only entries whose name or text contains it, ignoring case.'),
  })
  .refine(fits, OWNER);
export type ListMemory = z.infer<typeof listMemory>;

export const putMemory = z
  .strictObject({ ...which, text: z.string().max(MAX_MEMORY_TEXT) })
  .refine(fits, OWNER)
  .meta({ id: 'PutMemory' });
export type PutMemory = z.infer<typeof putMemory>;

export const memoryEntry = z
  .object({ name: z.string(), text: z.string(), updatedAt: instant })
  .meta({ id: 'MemoryEntry' });

export const memoryPage = z
  .object({
    items: z.array(z.object({ name: z.string(), characters: z.int(), updatedAt: instant })),
    nextCursor: z.string().nullable().describe('Null on the last page.'),
  })
  .meta({ id: 'MemoryPage' });
