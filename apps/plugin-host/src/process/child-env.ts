/** Variables a plugin gets from the host's own environment whatever plugin.json says. */
const inherited = ['PATH', 'HOME', 'LANG'] as const;

/** What the protocol tells one plugin process. */
export interface ProtocolVariables {
  /** Private folder for sockets and temporary files. */
  readonly socketDirectory: string;
  /** PEM of the host's certificate; absent without AutoMTLS. */
  readonly clientCertificate?: string;
  readonly pluginName: string;
  /** JSON of plugin.json `config`. */
  readonly config: string;
}

/** Key and value that tell a plugin it was started by this host; not a secret. */
export const magicCookie = { key: 'CODEDOCK_PLUGIN', value: 'codedock-plugin-v1' } as const;

/** App protocol versions this host speaks. */
export const appProtocolVersions: readonly number[] = [1];

/**
 * The whole environment of a plugin: the allow-list, the names plugin.json asks for, the protocol's variables.
 * Nothing else of the host's environment reaches a plugin, so a host that is itself a plugin passes nothing on.
 */
export function childEnvironment(
  host: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
  protocol: ProtocolVariables,
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of [...inherited, ...names]) {
    const value = host[name];
    if (value !== undefined) environment[name] = value;
  }
  return {
    ...environment,
    [magicCookie.key]: magicCookie.value,
    PLUGIN_MIN_PORT: '10000',
    PLUGIN_MAX_PORT: '25000',
    PLUGIN_PROTOCOL_VERSIONS: appProtocolVersions.join(','),
    PLUGIN_UNIX_SOCKET_DIR: protocol.socketDirectory,
    TMPDIR: protocol.socketDirectory,
    CODEDOCK_PLUGIN_NAME: protocol.pluginName,
    CODEDOCK_PLUGIN_CONFIG: protocol.config,
    ...(protocol.clientCertificate === undefined ? {} : { PLUGIN_CLIENT_CERT: protocol.clientCertificate }),
  };
}
