import { hostname } from 'node:os';
import { isTraced, type Logger, pluginHostMetrics, readTlsFiles } from '@codedock/platform';
import { capabilitySigner, connectPluginHosts, type PluginHosts } from '@codedock/plugin-bridge';
import type { DatabaseClock, Store } from '@codedock/store';
import type { RunnerConfig } from '../config.js';

/** Connects to the plugin-hosts of PLUGIN_HOST_URL; without an address no gate is asked. @throws AppError `config_invalid` */
export function openPluginHosts(config: RunnerConfig, store: Store, clock: DatabaseClock, logger: Logger): PluginHosts {
  const tls = readTlsFiles(config);
  return connectPluginHosts({
    urls: (config.pluginHostUrls ?? []).map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`),
    clientName: `runner ${hostname()} ${process.pid}`,
    gateTimeoutMs: config.pluginGateTimeoutMs,
    logger,
    metrics: pluginHostMetrics,
    traced: isTraced,
    authorityNow: clock.now,
    epochStore: {
      load: () => store.plugins.loadSnapshot(),
      save: (epoch, snapshot) => store.plugins.saveSnapshot(epoch, snapshot),
    },
    ...(config.internalToken === undefined ? {} : { token: config.internalToken.reveal() }),
    ...(config.capabilityKey === undefined ? {} : { signCapability: capabilitySigner(config.capabilityKey.reveal()) }),
    ...(tls === undefined ? {} : { tls }),
  });
}
