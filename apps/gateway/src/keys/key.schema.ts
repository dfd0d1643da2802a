import { SCOPES } from '@codedock/domain';
import { z } from 'zod';
import { id, instant } from '../http/shapes.js';

const TEN_YEARS_MS = 3_660 * 86_400_000;

const scopes = z
  .array(z.enum(SCOPES))
  .min(1)
  .refine((list) => new Set(list).size === list.length, 'names a scope twice');

const expiresAt = z.iso
  .datetime({ offset: true })
  .refine((text) => Date.parse(text) > Date.now(), 'is in the past')
  .refine((text) => Date.parse(text) < Date.now() + TEN_YEARS_MS, 'is more than ten years from now');

export const createKey = z
  .strictObject({
    name: z
      .string()
      .regex(/^[\x21-\x7e]([\x20-\x7e]{0,98}[\x21-\x7e])?$/)
      .describe('What the key is for; shown in audit and events. 1 to 100 printable ASCII characters.'),
    scopes: scopes.default(['runs']),
    expiresAt: expiresAt.optional().describe('Absent: the key does not expire.'),
  })
  .meta({ id: 'CreateKey' });
export type CreateKey = z.infer<typeof createKey>;

export const rotateKey = z
  .strictObject({
    graceSeconds: z
      .int()
      .min(0)
      .max(30 * 86_400)
      .default(86_400)
      .describe('How long the former key is still good.'),
    expiresAt: expiresAt.optional().describe('Absent: as before.'),
  })
  .meta({ id: 'RotateKey' });
export type RotateKey = z.infer<typeof rotateKey>;

const fields = {
  id,
  name: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  createdAt: instant,
  expiresAt: instant.optional(),
  rotatedAt: instant.optional(),
  formerUntil: instant.optional().describe('Until then the key from before the last rotation is good too.'),
  revokedAt: instant.optional(),
};

export const apiKey = z.object(fields).meta({ id: 'ApiKey' });

export const apiKeyList = z.object({ items: z.array(apiKey) }).meta({ id: 'ApiKeyList' });

export const newKey = z
  .object({
    ...fields,
    key: z.string().optional().describe('Shown this once. Absent in a replay where no encryption key keeps it.'),
  })
  .meta({ id: 'NewApiKey' });
