import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { AppError } from '@codedock/domain';
import { isTraced, type Logger } from '@codedock/platform';
import { capabilitySigner, connectPluginHosts, type PluginHosts } from '@codedock/plugin-bridge';
import type { Store } from '@codedock/store';
import type { RunnerConfig } from '../config.js';

/** Connects to the plugin-hosts of PLUGIN_HOST_URL; without an address no gate is asked. */
export function openPluginHosts(config: RunnerConfig, store: Store, logger: Logger): PluginHosts {
  const tls = tlsOf(config);
  return connectPluginHosts({
    urls: (config.pluginHostUrls ?? []).map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`),
    clientName: `runner ${hostname()} ${process.pid}`,
    gateTimeoutMs: config.pluginGateTimeoutMs,
    logger,
    metrics: {
      notificationDropped: (event) => logger.debug({ event }, 'a plugin was not told of an event'),
    },
    traced: isTraced,
    epochStore: {
      load: () => store.plugins.loadSnapshot(),
      save: (epoch, snapshot) => store.plugins.saveSnapshot(epoch, snapshot),
    },
    ...(config.internalToken === undefined ? {} : { token: config.internalToken.reveal() }),
    ...(config.capabilityKey === undefined ? {} : { signCapability: capabilitySigner(config.capabilityKey.reveal()) }),
    ...(tls === undefined ? {} : { tls }),
  });
}

function tlsOf(config: RunnerConfig): { ca: Buffer; cert: Buffer; key: Buffer } | undefined {
  const { tlsCaFile: ca, tlsCertFile: cert, tlsKeyFile: key } = config;
  if (ca === undefined || cert === undefined || key === undefined) return undefined;
  return {
    ca: read('CODEDOCK_TLS_CA_FILE', ca),
    cert: read('CODEDOCK_TLS_CERT_FILE', cert),
    key: read('CODEDOCK_TLS_KEY_FILE', key),
  };
}

function read(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new AppError('config_invalid', `${variable}: ${path} cannot be read; check path and rights.`, { cause });
  }
}
