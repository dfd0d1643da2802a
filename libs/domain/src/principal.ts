import type { JsonObject } from './json.js';

/** Who asks: sent to plugins with every gate, never containing a credential. */
export interface Principal {
  readonly tenant: string;
  /** Name of the API key, never the key. */
  readonly key: string;
  /** End user on whose behalf the key acts, where the session names one. */
  readonly actor?: string;
  readonly agent: string;
  readonly mode?: string;
  readonly metadata: JsonObject;
}

/** Every scope of API keys. */
export const SCOPES = ['runs', 'approvals', 'admin'] as const;
/** What an API key may do: use sessions and runs, decide approvals, administer. */
export type Scope = (typeof SCOPES)[number];
