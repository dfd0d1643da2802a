import { z } from 'zod';
import { instant, page } from '../http/shapes.js';

/** Longest name, owner and text of a memory entry, UTF-16 code units. */
const MAX_NAME = 200;
const MAX_TEXT = 100_000;

const which = {
  scope: z.enum(['session', 'user', 'tenant']).describe("A session's, an end user's, or the tenant's."),
  owner: z
    .string()
    .min(1)
    .max(MAX_NAME)
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
    cursor: z.string().min(1).max(MAX_NAME).optional().describe('`nextCursor` of the former page.'),
    query: z
      .string()
      .min(1)
      .max(MAX_NAME)
      .optional()
      .describe('Only entries whose name or text contains it, ignoring case.'),
  })
  .refine(fits, OWNER);
export type ListMemory = z.infer<typeof listMemory>;

export const putMemory = z
  .strictObject({ ...which, text: z.string().max(MAX_TEXT) })
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

/** Whether a name can be one of an entry. */
export function isMemoryName(name: string): boolean {
  return name.length > 0 && name.length <= MAX_NAME;
}
