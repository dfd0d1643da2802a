/** What the command reads from its environment; secrets come from there so that they show up in no process list. */
export const config = {
  /** Gateway to talk to. */
  url: process.env.CODEDOCK_URL ?? 'http://127.0.0.1:8080',
  /** @throws when CODEDOCK_API_KEY is not set. */
  apiKey(): string {
    return required('CODEDOCK_API_KEY', 'Put an API key there; `codedock keys create` makes one.');
  },
  /** @throws when DATABASE_URL is not set. */
  databaseUrl(): string {
    return required(
      'DATABASE_URL',
      'Give the PostgreSQL URL of the installation; `npm start` prints that of the embedded one.',
    );
  },
};

function required(name: string, remedy: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set. ${remedy}`);
  return value;
}
