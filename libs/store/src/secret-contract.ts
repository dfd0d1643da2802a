/** A stored secret that is not encrypted with the given key. */
export interface StaleSecret {
  readonly tenantId: string;
  /** Begins the page after it. */
  readonly cursor: string;
}

export interface StalePluginSecret extends StaleSecret {
  readonly plugin: string;
  readonly key: string;
  readonly sealed: { readonly keyId: string; readonly bytes: Uint8Array };
}

export interface StaleWebhook extends StaleSecret {
  readonly webhookId: string;
  /** As stored: `sealed:<key id>:<base64>`, or as it is. */
  readonly secret: string;
}

/** How many secrets are under which key; the empty key id: not encrypted. */
export interface SecretCount {
  readonly kind: 'plugin' | 'webhook';
  readonly keyId: string;
  readonly count: number;
}

/** Every secret at rest, for a change of the key. A replacement takes effect only where the secret has not changed. */
export interface SecretStore {
  counts(): Promise<readonly SecretCount[]>;
  stalePluginSecrets(input: { keyId: string; after: string; limit: number }): Promise<readonly StalePluginSecret[]>;
  /** False when it was changed or removed meanwhile. */
  replacePluginSecret(
    stale: StalePluginSecret,
    sealed: { readonly keyId: string; readonly bytes: Uint8Array },
  ): Promise<boolean>;
  staleWebhooks(input: { keyId: string; after: string; limit: number }): Promise<readonly StaleWebhook[]>;
  replaceWebhook(stale: StaleWebhook, secret: string): Promise<boolean>;
}
