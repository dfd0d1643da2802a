import { RUN_STATUSES } from '@codedock/domain';
import { z } from 'zod';
import { id, instant, metadata, page, pageOf } from '../http/shapes.js';

/** Longest input, UTF-16 code units. */
export const MAX_CONTENT_LENGTH = 500_000;
/** Longest name of an agent profile or mode. */
export const MAX_NAME_LENGTH = 64;

export const content = z.string().min(1).max(MAX_CONTENT_LENGTH);
export const mode = z.string().min(1).max(MAX_NAME_LENGTH);

export const startRun = z
  .strictObject({
    content: content.describe('What the user says.'),
    mode: mode.optional().describe("A label of the profile's modes table."),
    onBusy: z
      .enum(['reject', 'enqueue', 'interrupt'])
      .optional()
      .describe('While another run of the session is active: answer 409 (default), wait in order, or cancel that run.'),
    agent: z.string().min(1).max(MAX_NAME_LENGTH).optional().describe('Name of an agent profile; default `default`.'),
    metadata: metadata.optional(),
  })
  .meta({ id: 'StartRun' });
export type StartRun = z.infer<typeof startRun>;

export const run = z
  .object({
    id,
    sessionId: id,
    status: z.enum(RUN_STATUSES),
    stopReason: z.string().optional().describe('Why it ended; switch on it.'),
    message: z.string().optional(),
    by: z.string().optional().describe('The hook or host that ended it.'),
    agent: z.string(),
    mode: z.string().optional(),
    attempt: z.int(),
    usage: z.object({ inputTokens: z.int(), outputTokens: z.int() }),
    turns: z.int(),
    toolCalls: z.int(),
    metadata,
    approvalId: id.optional().describe('The open approval while it waits for one.'),
    cancelRequested: z.boolean(),
    createdBy: id.describe('Id of the API key.'),
    createdAt: instant,
    startedAt: instant.optional(),
    endedAt: instant.optional(),
    position: z.int().optional().describe('Place in the order of acceptance while pending.'),
    firstSeq: z.int(),
    lastSeq: z.int().describe('Its terminal event once it has ended, else the newest of the session.'),
  })
  .meta({ id: 'Run' });

export const startedRun = z
  .object({
    handled: z.boolean().describe('True: a policy dealt with the input; nothing was created or cancelled.'),
    runId: id.nullable(),
    run: run.nullable(),
  })
  .meta({ id: 'StartedRun' });

export const runPage = pageOf(run).meta({ id: 'RunPage' });

export const listRuns = z.strictObject({ ...page, status: z.enum(RUN_STATUSES).optional() });
export type ListRuns = z.infer<typeof listRuns>;
