/**
 * The embedded PostgreSQL could not be prepared, started or stopped.
 * The message names the folder or port, what is wrong with it and the remedy; `cause` holds the system's error.
 */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
}
