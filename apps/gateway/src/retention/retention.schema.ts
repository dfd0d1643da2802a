import { z } from 'zod';

const days = z.int().min(1).max(36_500);

const shown = z
  .object({
    days: days.nullable().describe('Null: kept for ever.'),
    source: z.enum(['tenant', 'installation', 'none']).describe('Who says so.'),
  })
  .meta({ id: 'RetentionRule' });

export const retention = z
  .object({
    events: shown.describe('Ledger events, from the front of each session.'),
    audit: shown.describe('Hook records and acts of administrators.'),
    messages: shown.describe('Messages, tool calls and ended approvals, whole runs at a time.'),
  })
  .meta({ id: 'Retention' });

const wish = days.nullable().optional().describe("Days; null: as the installation's default says.");

export const putRetention = z.strictObject({ events: wish, audit: wish, messages: wish }).meta({ id: 'PutRetention' });
export type PutRetention = z.infer<typeof putRetention>;
