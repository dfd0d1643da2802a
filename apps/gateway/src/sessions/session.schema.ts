import { z } from 'zod';
import { id, instant, json, metadata, page, pageOf, seqPage } from '../http/shapes.js';

const label = z.string().min(1).max(200);

export const createSession = z
  .strictObject({
    title: label.optional(),
    user: label.optional().describe('The end user on whose behalf the session is held; what plugins see as actor.'),
    metadata: metadata.optional(),
  })
  .meta({ id: 'CreateSession' });
export type CreateSession = z.infer<typeof createSession>;

export const session = z
  .object({
    id,
    title: z.string().optional(),
    user: z.string().optional(),
    metadata,
    status: z.enum(['open', 'archived']),
    lastSeq: z.int().describe('`seq` of the newest event; 0 when there is none.'),
    prunedSeq: z.int().describe('Events up to this one are not kept any more; 0 when all are.'),
    usage: z
      .object({ inputTokens: z.int(), outputTokens: z.int() })
      .describe('Tokens that belong to no run: completions of plugins that were asked about an input.'),
    createdAt: instant,
    archivedAt: instant.optional(),
  })
  .meta({ id: 'Session' });

export const sessionPage = pageOf(session).meta({ id: 'SessionPage' });

export const listSessions = z.strictObject(page);
export type ListSessions = z.infer<typeof listSessions>;

export const deleteSessionQuery = z.strictObject({
  cancel: z
    .enum(['true', 'false'])
    .default('false')
    .describe('Whether runs that are not over are cancelled; else they are refused with 409.'),
});
export type DeleteSessionQuery = z.infer<typeof deleteSessionQuery>;

export const deletingSession = z.object({ id, status: z.literal('deleting') }).meta({ id: 'DeletingSession' });

export const message = z
  .object({
    id,
    sessionId: id,
    runId: id.optional(),
    turnId: id.optional(),
    role: z.enum(['user', 'assistant', 'tool', 'system', 'developer']),
    content: z.union([z.object({ text: z.string() }), z.object({ callId: id, output: json })]),
    toolCalls: z.array(z.looseObject({ id, name: z.string(), arguments: json })).optional(),
    attachments: z.array(json).optional(),
    kind: z.literal('notice').optional().describe('Shown to people, never to the model.'),
    eventSeq: z.int(),
    createdAt: instant,
  })
  .meta({ id: 'Message' });

export const messagePage = z
  .object({
    items: z.array(message),
    nextAfter: z.int().nullable().describe('`after` of the next page; null on the last.'),
  })
  .meta({ id: 'MessagePage' });

export const listMessages = z.strictObject(seqPage);
export type ListMessages = z.infer<typeof listMessages>;
