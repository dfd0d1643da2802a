import type { Clock } from '@codedock/domain';
import { type Logger, metrics } from '@codedock/platform';
import type { Store } from '@codedock/store';

/** How often the lag is read, milliseconds. */
const EVERY_MS = 5_000;
const HOUR_MS = 3_600_000;
/** A plugin that no plugin-host has asked for since is forgotten, with what waits for it. */
const FORGOTTEN_AFTER_MS = 7 * 24 * HOUR_MS;

/** What the watch needs. */
export interface DeliveryWatch {
  readonly deliveries: Pick<Store['pluginDeliveries'], 'states' | 'forget'>;
  /** True while this process is the one that cleans up. */
  readonly leading: () => boolean;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/**
 * Keeps the gauge of how far durable delivery is behind; every gateway reports the same. A plugin that is forgotten is
 * reported as 0 once more. The returned function ends it.
 */
export function startDeliveryWatch({ deliveries, leading, clock, logger }: DeliveryWatch): () => void {
  let known: ReadonlySet<string> = new Set();
  let forgetAt = 0;
  const look = async () => {
    const states = await deliveries.states();
    const now = new Set(states.map(({ plugin }) => plugin));
    for (const plugin of known) if (!now.has(plugin)) metrics.pluginDeliveryLag.set(0, { plugin });
    for (const { plugin, lagMs = 0 } of states) metrics.pluginDeliveryLag.set(lagMs / 1_000, { plugin });
    known = now;
    if (!leading() || clock.now() < forgetAt) return;
    forgetAt = clock.now() + HOUR_MS;
    const plugins = await deliveries.forget(FORGOTTEN_AFTER_MS);
    if (plugins.length > 0)
      logger.warn({ plugins }, 'plugins that no plugin-host has asked for since a week are given no more events');
  };
  const timer = setInterval(
    () =>
      void look().catch((error: unknown) =>
        logger.warn({ err: error }, 'how far durable delivery is behind could not be looked up'),
      ),
    EVERY_MS,
  );
  timer.unref();
  return () => clearInterval(timer);
}
