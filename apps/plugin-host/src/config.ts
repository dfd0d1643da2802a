import { readFileSync } from 'node:fs';
import { delimiter } from 'node:path';
import { AppError } from '@codedock/domain';
import { chainReserveMs, defaultGateBudgetMs, defaultPluginTimeoutMs, maxGateBudgetMs } from '@codedock/proto';
import { z } from 'zod';

/** Shortest internal token, in characters. */
const minTokenCharacters = 16;

/** A duration such as `250ms`, `2s` or `1m`; a bare number is milliseconds. */
const duration = (defaultMs: number, minMs: number, maxMs: number) =>
  z
    .string()
    .regex(/^\d+(ms|s|m)?$/, 'must be a duration such as 250ms, 2s or 1m')
    .transform((text) => Number.parseInt(text, 10) * (text.endsWith('ms') ? 1 : text.endsWith('s') ? 1_000 : text.endsWith('m') ? 60_000 : 1))
    .pipe(z.number().min(minMs, `must be at least ${minMs} ms`).max(maxMs, `must be at most ${maxMs} ms`))
    .default(defaultMs);

const schema = z.object({
  CODEDOCK_PLUGIN_DIR: z.string().min(1).optional(),
  PLUGIN_DIR: z.string().min(1).optional(),
  PLUGIN_RPC_TIMEOUT: duration(defaultPluginTimeoutMs, 10, maxGateBudgetMs),
  PLUGIN_GATE_TIMEOUT: duration(defaultGateBudgetMs, chainReserveMs + 50, maxGateBudgetMs),
  PLUGIN_START_TIMEOUT: duration(10_000, 100, 300_000),
  PLUGIN_HOST_LISTEN: z.string().min(1).default('127.0.0.1:7070'),
  CODEDOCK_HOST_API_URL: z.string({ error: 'is not set; give the address of the gateway\'s host API, for example 127.0.0.1:7071' }).min(1),
  CODEDOCK_INTERNAL_TOKEN: z.string().min(minTokenCharacters, `must have at least ${minTokenCharacters} characters`).optional(),
  CODEDOCK_INTERNAL_TOKEN_FILE: z.string().min(1).optional(),
  CODEDOCK_TLS_CERT_FILE: z.string().min(1).optional(),
  CODEDOCK_TLS_KEY_FILE: z.string().min(1).optional(),
  CODEDOCK_TLS_CA_FILE: z.string().min(1).optional(),
  CODEDOCK_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error']).default('info'),
});

/** Certificate, key and the authority to trust, PEM. */
export interface TlsFiles {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly authority: Buffer;
}

/** The configuration of the plugin-host, read once. Times in milliseconds. */
export interface PluginHostConfig {
  readonly pluginRoots: readonly string[];
  readonly rpcTimeoutMs: number;
  readonly gateTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly listen: string;
  readonly hostApiTarget: string;
  /** Present on loopback without TLS. */
  readonly internalToken?: string;
  readonly tls?: TlsFiles;
  readonly logLevel: string;
}

/** Reads the configuration from variables. @throws AppError `config_invalid` naming the variable and the remedy. */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): PluginHostConfig {
  const parsed = schema.safeParse(environment);
  if (!parsed.success) {
    throw invalid(parsed.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`).join('; '));
  }
  const values = parsed.data;
  if (values.PLUGIN_RPC_TIMEOUT > values.PLUGIN_GATE_TIMEOUT) {
    throw invalid('PLUGIN_RPC_TIMEOUT is larger than PLUGIN_GATE_TIMEOUT; lower the one or raise the other');
  }
  const tls = readTls(values);
  const token = readToken(values);
  const hostApiTarget = targetOf(values.CODEDOCK_HOST_API_URL);
  if (tls === undefined) {
    for (const [name, address] of [['PLUGIN_HOST_LISTEN', values.PLUGIN_HOST_LISTEN], ['CODEDOCK_HOST_API_URL', hostApiTarget]] as const) {
      if (!isLoopback(address)) throw invalid(`${name} (${address}) is not on loopback; set CODEDOCK_TLS_CERT_FILE, CODEDOCK_TLS_KEY_FILE and CODEDOCK_TLS_CA_FILE`);
    }
    if (token === undefined) throw invalid('CODEDOCK_INTERNAL_TOKEN is not set; give the same random text to all services, or set the CODEDOCK_TLS_* files');
  }
  return Object.freeze({
    pluginRoots: readRoots(values.CODEDOCK_PLUGIN_DIR, values.PLUGIN_DIR),
    rpcTimeoutMs: values.PLUGIN_RPC_TIMEOUT,
    gateTimeoutMs: values.PLUGIN_GATE_TIMEOUT,
    startTimeoutMs: values.PLUGIN_START_TIMEOUT,
    listen: values.PLUGIN_HOST_LISTEN,
    hostApiTarget,
    ...(tls === undefined && token !== undefined ? { internalToken: token } : {}),
    ...(tls === undefined ? {} : { tls }),
    logLevel: values.CODEDOCK_LOG_LEVEL,
  });
}

/** Whether an address is only reachable from this machine. */
export function isLoopback(address: string): boolean {
  return address.startsWith('unix:') || /^(dns:\/\/\/)?(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?$/.test(address);
}

function readRoots(first: string | undefined, alias: string | undefined): string[] {
  if (first !== undefined && alias !== undefined && first !== alias) {
    throw invalid('CODEDOCK_PLUGIN_DIR and PLUGIN_DIR are both set and differ; unset one of them');
  }
  return (first ?? alias ?? '').split(delimiter).filter((root) => root !== '');
}

function targetOf(url: string): string {
  return url.replace(/^(grpcs?|https?):\/\//, '').replace(/\/$/, '');
}

type Values = z.infer<typeof schema>;

function readToken(values: Values): string | undefined {
  if (values.CODEDOCK_INTERNAL_TOKEN !== undefined) return values.CODEDOCK_INTERNAL_TOKEN;
  if (values.CODEDOCK_INTERNAL_TOKEN_FILE === undefined) return undefined;
  const token = readFile('CODEDOCK_INTERNAL_TOKEN_FILE', values.CODEDOCK_INTERNAL_TOKEN_FILE).toString('utf8').trim();
  if (token.length < minTokenCharacters) throw invalid(`CODEDOCK_INTERNAL_TOKEN_FILE holds fewer than ${minTokenCharacters} characters`);
  return token;
}

function readTls(values: Values): TlsFiles | undefined {
  const names = ['CODEDOCK_TLS_CERT_FILE', 'CODEDOCK_TLS_KEY_FILE', 'CODEDOCK_TLS_CA_FILE'] as const;
  const [certificate, key, authority] = names.map((name) => {
    const path = values[name];
    return path === undefined ? undefined : readFile(name, path);
  });
  if (certificate === undefined && key === undefined && authority === undefined) return undefined;
  if (certificate === undefined || key === undefined || authority === undefined) {
    throw invalid(`${names.filter((name) => values[name] === undefined).join(' and ')} is not set; mutual TLS needs all three CODEDOCK_TLS_* files`);
  }
  return { certificate, key, authority };
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw invalid(`${name}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function invalid(message: string): AppError {
  return new AppError('config_invalid', message);
}
