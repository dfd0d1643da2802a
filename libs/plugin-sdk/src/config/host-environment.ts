/** Key and value that tell a plugin it was started by a plugin host; not a secret. */
export const magicCookie = { key: 'CODEDOCK_PLUGIN', value: 'codedock-plugin-v1' } as const;

/** What the host says in the environment. */
export interface HostEnvironment {
  /** Whether a plugin host started this process. */
  readonly startedByHost: boolean;
  /** App protocol versions the host speaks; empty when it names none. */
  readonly protocolVersions: readonly number[];
  /** Items of the version list that are no numbers. */
  readonly unreadableVersions: readonly string[];
  /** PEM of the host's certificate; absent without AutoMTLS. */
  readonly clientCertificate?: string;
  /** Folder for sockets; absent = the temporary folder. */
  readonly socketDirectory?: string;
  /** The host asked for multiplexing, so it reads the seventh field of the handshake. */
  readonly asksForMultiplexing: boolean;
  /** JSON of plugin.json `config`. */
  readonly config: string;
}

/** Reads the variables of the go-plugin protocol. */
export function readHostEnvironment(env: Readonly<Record<string, string | undefined>> = process.env): HostEnvironment {
  const items = (env['PLUGIN_PROTOCOL_VERSIONS'] ?? '').split(',').filter((item) => item !== '');
  const certificate = env['PLUGIN_CLIENT_CERT'] ?? '';
  const directory = env['PLUGIN_UNIX_SOCKET_DIR'] ?? '';
  return {
    startedByHost: env[magicCookie.key] === magicCookie.value,
    protocolVersions: items.filter((item) => /^\d+$/.test(item)).map(Number),
    unreadableVersions: items.filter((item) => !/^\d+$/.test(item)),
    ...(certificate === '' ? {} : { clientCertificate: certificate }),
    ...(directory === '' ? {} : { socketDirectory: directory }),
    asksForMultiplexing: (env['PLUGIN_MULTIPLEX_GRPC'] ?? '') !== '',
    config: env['CODEDOCK_PLUGIN_CONFIG'] ?? '',
  };
}
