import { statSync } from 'node:fs';
import { AppError } from '@codedock/domain';
import { type Address, type Environment, readConfig, readTlsFiles, type TlsFiles } from '@codedock/platform';

/** The variables this process was started with; plugins get those of them that plugin.json names. */
export const hostEnvironment: Environment = process.env;

/** The configuration of the plugin-host, read once. Times in milliseconds. */
export interface PluginHostConfig {
  readonly pluginRoots: readonly string[];
  readonly rpcTimeoutMs: number;
  readonly gateTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** Where the gate service listens: `host:port`. */
  readonly listen: string;
  readonly healthListen: Address;
  /** gRPC target of the gateway's host API; absent: no desired state is read and call-backs are refused. */
  readonly hostApiTarget?: string;
  /** Present on loopback without TLS. */
  readonly internalToken?: string;
  readonly tls?: TlsFiles;
  readonly logLevel: string;
  readonly logFormat: 'json' | 'pretty';
  readonly exitWithParent: boolean;
}

/** Reads the configuration from variables. @throws AppError `config_invalid` naming the variable and the remedy. */
export function readPluginHostConfig(environment: Environment): PluginHostConfig {
  const values = readConfig('plugin-host', environment);
  const tls = readTlsFiles(values);
  const internalToken = values.internalToken?.reveal();
  if (tls === undefined && internalToken === undefined) {
    throw new AppError(
      'config_invalid',
      'CODEDOCK_INTERNAL_TOKEN is not set. Give the same random text to all services, or set the CODEDOCK_TLS_* files.',
    );
  }
  const pluginRoots = values.pluginDirs ?? [];
  for (const folder of pluginRoots) requireFolder(folder);
  return Object.freeze({
    pluginRoots,
    rpcTimeoutMs: values.pluginRpcTimeoutMs,
    gateTimeoutMs: values.pluginGateTimeoutMs,
    startTimeoutMs: values.pluginStartTimeoutMs,
    listen: textOf(values.pluginHostListen),
    healthListen: values.pluginHostHealthListen,
    ...(values.hostApiUrl === undefined ? {} : { hostApiTarget: textOf(values.hostApiUrl) }),
    ...(tls === undefined && internalToken !== undefined ? { internalToken } : {}),
    ...(tls === undefined ? {} : { tls }),
    logLevel: values.logLevel,
    logFormat: values.logFormat,
    exitWithParent: values.exitWithParent,
  });
}

// A misspelt folder would leave every gate without its policies.
function requireFolder(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
  throw new AppError(
    'config_invalid',
    `CODEDOCK_PLUGIN_DIR names "${path}", which is no folder: no plugin would be asked. Create it or correct the variable.`,
  );
}

function textOf({ host, port }: Address): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
