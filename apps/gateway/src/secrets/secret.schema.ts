import { z } from 'zod';

export const secretKeys = z
  .object({
    keyId: z.string().nullable().describe('Names the key that encrypts; null when there is none.'),
    accepted: z.array(z.string()).describe('Names of further keys that open.'),
    items: z.array(
      z.object({
        kind: z.enum(['plugin', 'webhook']),
        keyId: z.string().nullable().describe('Null: not encrypted.'),
        count: z.int(),
        readable: z.boolean().describe('Whether a known key opens them.'),
      }),
    ),
  })
  .meta({ id: 'SecretKeys' });

export const reencrypted = z
  .object({
    keyId: z.string(),
    pluginSecrets: z.int(),
    webhooks: z.int(),
    unreadable: z.int().describe('Left as they are: their key is not known, or they were changed in the database.'),
  })
  .meta({ id: 'ReencryptedSecrets' });
