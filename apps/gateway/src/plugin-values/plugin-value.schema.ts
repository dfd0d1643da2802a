import { z } from 'zod';
import { instant, json } from '../http/shapes.js';

const scope = z
  .enum(['tenant', 'global'])
  .describe('The tenant of the key, or all tenants that have no value of their own.');

const about = {
  key: z.string(),
  scope,
  updatedBy: z.string().describe('API key or plugin that set it.'),
  updatedAt: instant,
};

export const settingList = z
  .object({ items: z.array(z.object({ ...about, value: json })) })
  .meta({ id: 'PluginSettings' });

export const secretList = z
  .object({ items: z.array(z.object(about)).describe('Names only: a secret is never shown.') })
  .meta({ id: 'PluginSecrets' });

export const changedValue = z.object({ plugin: z.string(), key: z.string(), scope }).meta({ id: 'ChangedPluginValue' });

export const putSetting = z
  .strictObject({
    value: json.refine((value) => value !== undefined, 'is missing').describe('Any JSON value, at most 64 KiB.'),
    scope: scope.default('tenant'),
  })
  .meta({ id: 'PutPluginSetting' });
export type PutSetting = z.infer<typeof putSetting>;

export const putSecret = z
  .strictObject({
    value: z.string().min(1).max(16_384).describe('Kept encrypted; no answer ever holds it.'),
    scope: scope.default('tenant'),
  })
  .meta({ id: 'PutPluginSecret' });
export type PutSecret = z.infer<typeof putSecret>;

export const whichValue = z.strictObject({ scope: scope.default('tenant') });
export type WhichValue = z.infer<typeof whichValue>;
