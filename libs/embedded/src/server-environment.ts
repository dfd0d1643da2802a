import type { Binaries } from './binaries.js';

/** The whole environment of initdb and the server: nothing of the starter's secrets, fixed language and time zone. */
export function serverEnvironment(binaries: Binaries): Record<string, string> {
  // biome-ignore lint/style/noProcessEnv: the two names that a child needs from the system, no configuration.
  const system = process.env;
  const environment: Record<string, string> = {
    PATH: system['PATH'] ?? '/usr/bin:/bin',
    LC_ALL: 'C',
    TZ: 'UTC',
    LD_LIBRARY_PATH: binaries.libraries,
  };
  const systemRoot = system['SystemRoot'];
  if (systemRoot) {
    environment['SystemRoot'] = systemRoot;
  }
  return environment;
}
