import { z } from 'zod';
import { id, instant, page } from '../http/shapes.js';

const recordId = z.string().regex(/^\d{1,18}$/);

export const hookRecord = z
  .object({
    id: recordId,
    gate: z.string(),
    port: z.string().optional().describe('Name in the plugin protocol.'),
    hook: z.string().describe('The plugin, the in-process hook, or `host` when nobody could be asked.'),
    version: z.string().optional(),
    policyVersion: z.string().optional(),
    generation: z.int().optional(),
    outcome: z.string().describe('continued, changed, handled, blocked, asked, … timeout, crashed, not asked, …'),
    reason: z.string().optional(),
    startedMs: z.number().describe("From the gate's start."),
    durationMs: z.number(),
    queueMs: z.number(),
    runId: id.optional(),
    turnId: id.optional(),
    callId: id.optional(),
    requestId: id.optional().describe('Where no run exists.'),
    attempt: z.int().optional(),
    occurredAt: instant,
  })
  .meta({ id: 'HookRecord' });

export const auditPage = z
  .object({ items: z.array(hookRecord), nextCursor: recordId.nullable().describe('Null on the last page.') })
  .meta({ id: 'HookRecordPage' });

export const listRecords = z.strictObject({
  ...page,
  cursor: recordId.optional().describe('`nextCursor` of the former page.'),
});
export type ListRecords = z.infer<typeof listRecords>;

export const runTrace = z
  .object({
    runId: id,
    status: z.string(),
    gates: z.array(
      hookRecord.extend({
        atMs: z.number().describe("From the run's creation to the question."),
        iteration: z.int().optional().describe('The turn, 1, 2, 3 …'),
        tool: z.string().optional(),
      }),
    ),
    steps: z
      .array(
        z.object({
          kind: z.enum(['turn', 'model', 'tool']),
          turnId: id,
          iteration: z.int().optional().describe('The turn, 1, 2, 3 …'),
          callId: id.optional(),
          tool: z.string().optional(),
          n: z.int().optional().describe('Which execution of the call.'),
          atMs: z.number().describe("From the run's creation."),
          durationMs: z.number().nullable().describe('Null while it lasts, or where nobody knows how it ended.'),
          outcome: z.string(),
        }),
      )
      .describe('Turns, model calls and executions of tools in order, as exact as the moments they were stored.'),
    turns: z.array(z.looseObject({ id, iteration: z.int(), status: z.string() })),
    calls: z.array(z.looseObject({ id, name: z.string(), state: z.string() })),
    executions: z.array(z.looseObject({ callId: id, n: z.int(), state: z.string() })),
  })
  .meta({ id: 'RunTrace' });
