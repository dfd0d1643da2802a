import { AppError } from '@codedock/domain';

/** Where `codedock-migrate` works. */
export interface MigrateConfig {
  readonly url: string;
  readonly dir?: string;
}

/** Reads `DATABASE_DIRECT_URL`, else `DATABASE_URL`, and `CODEDOCK_MIGRATIONS_DIR`. Throws config_invalid without a URL. */
export function migrateConfig(environment: NodeJS.ProcessEnv = process.env): MigrateConfig {
  const url = environment['DATABASE_DIRECT_URL'] ?? environment['DATABASE_URL'];
  if (url === undefined || !/^postgres(ql)?:\/\//.test(url)) {
    throw new AppError('config_invalid', 'DATABASE_URL must be the URL of a PostgreSQL database: postgresql://…');
  }
  const dir = environment['CODEDOCK_MIGRATIONS_DIR'];
  return { url, ...(dir === undefined || dir === '' ? {} : { dir }) };
}
