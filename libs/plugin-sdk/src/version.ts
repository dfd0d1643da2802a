/** Version of this SDK, as the manifest tells it to the host. */
export const sdkVersion = '0.1.0';

/** Major version of the plugin protocol this SDK speaks. */
export const protocolMajor = 1;

/** App protocol versions this SDK serves. */
export const appProtocolVersions: readonly number[] = [1];
