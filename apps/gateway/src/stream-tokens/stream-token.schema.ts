import { z } from 'zod';
import { id, instant } from '../http/shapes.js';

export const createStreamToken = z
  .strictObject({
    sessionId: id.optional().describe('For the session and its runs.'),
    runId: id.optional().describe('For this run alone.'),
    ttlSeconds: z.int().min(10).max(3_600).default(300),
  })
  .refine(({ sessionId, runId }) => (sessionId === undefined) !== (runId === undefined), {
    path: ['sessionId'],
    message: 'name either a session or a run',
  })
  .meta({ id: 'CreateStreamToken' });
export type CreateStreamToken = z.infer<typeof createStreamToken>;

export const streamToken = z
  .object({
    token: z
      .string()
      .optional()
      .describe(
        'For `?token=` of an event stream, and nothing else. Shown this once. Absent in a replay where no encryption key keeps it.',
      ),
    expiresAt: instant.describe('No stream begins with it from then on; an open one goes on.'),
  })
  .meta({ id: 'StreamToken' });
