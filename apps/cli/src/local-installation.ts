import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findEmbeddedPostgres } from '@codedock/embedded';

/** The installation that `npm start` runs from a data folder: where it answers, its first key, its database. */
export class LocalInstallation {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = resolve(folder);
  }

  /** Address of its gateway as of the last start; undefined before the first one. */
  get url(): string | undefined {
    return this.#kept('url');
  }

  /** Where it keeps its traces, while it was started with `--traces`. */
  get tracesUrl(): string | undefined {
    return this.#kept('traces-url');
  }

  /** Root of the plugins that are being written; the installation makes it when it starts. */
  get pluginRoot(): string {
    return join(this.#folder, 'plugins');
  }

  /**
   * Its first API key, for its own gateway alone: undefined for every other address, so that the key is sent nowhere
   * else.
   */
  apiKeyFor(url: string): string | undefined {
    return url === this.url ? this.#kept('api-key') : undefined;
  }

  /** URL of its database while it runs. */
  async databaseUrl(): Promise<string | undefined> {
    return (await findEmbeddedPostgres(join(this.#folder, 'postgres')))?.url;
  }

  #kept(name: string): string | undefined {
    try {
      return readFileSync(join(this.#folder, name), 'utf8').trim() || undefined;
    } catch {
      return undefined;
    }
  }
}
