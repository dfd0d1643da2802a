/** The migrations this build needs, in order. A database that lacks one is not ready for it. */
export const MIGRATIONS: readonly string[] = [
  '20261130000000_init',
  '20261201000000_decisions_and_webhooks',
  '20261202000000_plugin_values',
  '20261203000000_retried_calls',
  '20261204000000_webhook_lock_order',
  '20261205000000_durable_delivery',
  '20261206000000_context_checkpoints',
  '20261206000001_long_queues',
  '20261206000002_bounded_pending',
  '20261207000000_retention',
  '20261207000001_checkpoint_retention',
  '20261209000000_four_eyes_on_retries',
  '20261209000001_unknown_calls',
  '20261209000002_former_unknown_calls',
  '20261210000000_rung_again_sooner',
];
