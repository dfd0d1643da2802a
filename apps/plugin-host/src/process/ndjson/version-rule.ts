/** Version of the NDJSON protocol this host speaks: within a major version only additions. */
export const coreVersion = '1.0.0';

/** The major version of a text such as `1.4.0` or `v1`; undefined when it is none. */
export function majorVersion(text: string): number | undefined {
  const match = /^v?(\d{1,9})(?:\.\d+){0,2}(?:[-+][0-9A-Za-z.+-]*)?$/.exec(text.trim());
  return match === null ? undefined : Number(match[1]);
}

/** Why a plugin of this version cannot be used; undefined when it can. */
export function versionProblem(sdkVersion: string): string | undefined {
  const theirs = majorVersion(sdkVersion);
  if (theirs === undefined)
    return `its sdk_version ${JSON.stringify(sdkVersion.slice(0, 100))} is no version, this host speaks ${coreVersion}; answer the handshake with a version such as "${coreVersion}"`;
  if (theirs === majorVersion(coreVersion)) return undefined;
  return `its sdk_version is ${sdkVersion}, this host speaks ${coreVersion}: the major versions differ; install a build of the plugin for this host`;
}
