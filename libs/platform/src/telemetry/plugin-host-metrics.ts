import { metrics } from './metrics.js';

/** What a process that asks plugin-hosts counts about them. */
export const pluginHostMetrics = {
  notificationDropped(event: string): void {
    metrics.noticesDropped.add(1, { event });
  },
  pluginHosts({ known, reachable }: { readonly known: number; readonly reachable: number }): void {
    metrics.pluginHosts.set(known, { state: 'known' });
    metrics.pluginHosts.set(reachable, { state: 'reachable' });
  },
} as const;
