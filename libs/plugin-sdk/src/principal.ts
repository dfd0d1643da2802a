import { isJsonObject, type JsonObject, readObject } from './json.js';

/** Who asks. Members are absent where the host did not say. Never contains a credential. */
export interface Principal {
  readonly tenant?: string;
  /** Name of the API key, never the key. */
  readonly key?: string;
  /** End user on whose behalf the key acts. */
  readonly actor?: string;
  /** Name of the agent. */
  readonly agent?: string;
  readonly mode?: string;
  readonly metadata: JsonObject;
}

/** Reads the principal of a question; hosts that know none send no bytes. */
export function readPrincipal(bytes: Uint8Array): Principal {
  const { metadata, ...rest } = readObject(bytes, 'the principal');
  const texts = Object.entries(rest).filter(([, value]) => typeof value === 'string');
  return { ...Object.fromEntries(texts), metadata: isJsonObject(metadata) ? metadata : {} };
}
