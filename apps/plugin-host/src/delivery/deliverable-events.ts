import { LEDGER_EVENT_TYPES } from '@codedock/domain';

const deliverable: ReadonlySet<string> = new Set(LEDGER_EVENT_TYPES.filter((type) => type !== 'assistant.delta'));

/** Those of a plugin's subscriptions that are ledger events plugins get: no ports, no events of other plugins, no deltas. */
export function deliverableEvents(subscriptions: readonly string[]): readonly string[] {
  return subscriptions.filter((name) => deliverable.has(name));
}
