import { LEDGER_EVENT_TYPES } from '@codedock/domain';
import { z } from 'zod';
import { id, instant, json, seqPage } from '../http/shapes.js';

export const ledgerEvent = z
  .object({
    eventId: id,
    sessionId: id,
    runId: id.optional(),
    turnId: id.optional(),
    attempt: z.int().optional().describe('The lease under which it was written.'),
    seq: z.int().describe('1, 2, 3 … per session, without a gap.'),
    type: z.enum(LEDGER_EVENT_TYPES),
    version: z.int(),
    occurredAt: instant,
    payload: json.describe('By type.'),
  })
  .meta({ id: 'LedgerEvent' });

export const eventLog = z
  .object({
    items: z.array(ledgerEvent),
    nextAfter: z.int().nullable().describe('`after` of the next page; null on the last.'),
    prunedSeq: z.int().describe('Events up to this one are not kept any more; 0 when all are.'),
  })
  .meta({ id: 'EventLog' });

export const readEventLog = z.strictObject(seqPage);
export type ReadEventLog = z.infer<typeof readEventLog>;

export const streamEvents = z.strictObject({
  after: z.string().optional().describe('Only events with a greater `seq`. `Last-Event-ID` wins over it.'),
  token: z.string().optional().describe('A stream token, where no `Authorization` header can be sent.'),
});
export type StreamEvents = z.infer<typeof streamEvents>;
