import type { LedgerEventType } from './ledger-event.js';

/** Events a webhook may be told of: that a person is wanted, and that a run is over. */
export const WEBHOOK_EVENTS = [
  'tool.approval_required',
  'tool.approval_reminder',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timed_out',
  'run.blocked',
] as const satisfies readonly LedgerEventType[];
/** A ledger event type that webhooks may ask for. */
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];
