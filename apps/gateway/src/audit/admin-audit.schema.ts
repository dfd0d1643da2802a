import { z } from 'zod';
import { instant, json, page } from '../http/shapes.js';

const actId = z.string().regex(/^\d{1,18}$/);

export const adminAct = z
  .object({
    id: actId,
    occurredAt: instant,
    actor: z.string().describe('Name of the API key, a plugin, or `host`.'),
    action: z.string().describe('Such as key.created, plugin.disabled, session.deleted.'),
    target: z.string(),
    detail: json,
  })
  .meta({ id: 'AdminAct' });

export const adminActPage = z
  .object({ items: z.array(adminAct), nextCursor: actId.nullable().describe('Null on the last page.') })
  .meta({ id: 'AdminActPage' });

export const listAdminActs = z.strictObject({
  ...page,
  cursor: actId.optional().describe('`nextCursor` of the former page.'),
  of: z
    .enum(['tenant', 'installation'])
    .default('tenant')
    .describe("The tenant's acts, or those of the installation itself (needs a tenant that may change it)."),
  action: z.string().min(1).max(100).optional(),
  target: z.string().min(1).max(200).optional(),
});
export type ListAdminActs = z.infer<typeof listAdminActs>;
