const mebibyte = 1024 * 1024;

/** Bytes of one gRPC message that a peer with default settings accepts. */
export const maxMessageBytes = 4 * mebibyte;

/** Bytes kept free in a message for every field beside the payload: ids, scratchpad, principal, capability, framing. */
export const messageFramingBytes = 64 * 1024;

/** Bytes of a payload (or of tool arguments) unless a plugin declares more. */
export const maxPayloadBytes = maxMessageBytes - messageFramingBytes;

/** Bytes of the encoded scratchpad. */
export const maxScratchpadBytes = 8 * 1024;

/** Milliseconds by which the plugin-host answers a gate before the caller's own timer. */
export const chainReserveMs = 100;

/** Milliseconds by which the gRPC deadline of a gate exceeds the caller's own timer. */
export const deadlineSlackMs = 100;

/** Milliseconds of a gate unless a subscriber declares a larger budget. */
export const defaultGateBudgetMs = 2_000;

/** Milliseconds; the largest budget a plugin may declare for a gate. */
export const maxGateBudgetMs = 30_000;

/** Milliseconds one plugin gets for one call unless plugin.json says otherwise. */
export const defaultPluginTimeoutMs = 2_000;

/** Milliseconds of one tool execution unless the tool says otherwise. */
export const defaultToolTimeoutMs = 60_000;
