import { Client } from 'pg';
import { reconnectDelay } from '../backoff.js';
import { CONNECT_TIMEOUT_MS } from '../run-queue.js';

/** What a persistent connection does and tells. */
export interface PersistentClientOptions {
  readonly url: string;
  readonly name: string;
  /** Runs on every fresh connection before anyone uses it. */
  prepare(client: Client): Promise<void>;
  onError(error: Error): void;
  /** After the second and every later connection. */
  onReconnected?(): void;
}

/** One dedicated connection to PostgreSQL that comes back by itself. */
export class PersistentClient {
  readonly #options: PersistentClientOptions;
  #client: Client | undefined;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #connecting: Promise<void> | undefined;

  constructor(options: PersistentClientOptions) {
    this.#options = options;
  }

  /** The live connection; undefined while it is away. */
  get current(): Client | undefined {
    return this.#client;
  }

  /** Connects for the first time. Rejects when that fails; later losses are repaired in the background. */
  async start(): Promise<void> {
    await this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#connecting?.catch(() => undefined);
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const client = new Client({
      connectionString: this.#options.url,
      application_name: this.#options.name,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    let lost = false;
    const lose = (error?: Error) => {
      if (error !== undefined && !this.#closed) this.#options.onError(error);
      if (lost) return;
      lost = true;
      if (this.#client !== client) return;
      this.#client = undefined;
      client.end().catch(() => undefined);
      this.#reconnect(1);
    };
    client.on('error', lose);
    client.on('end', () => lose());
    try {
      await client.connect();
      await this.#options.prepare(client);
    } catch (error) {
      lost = true;
      client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed || lost) {
      client.end().catch(() => undefined);
      if (this.#closed) return;
      throw new Error('the connection was lost while it was made');
    }
    this.#client = client;
  }

  #reconnect(attempt: number): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#connecting = this.#connect().then(
        () => {
          if (!this.#closed) this.#options.onReconnected?.();
        },
        (error: unknown) => {
          this.#options.onError(error instanceof Error ? error : new Error(String(error)));
          this.#reconnect(attempt + 1);
        },
      );
    }, reconnectDelay(attempt));
  }
}
