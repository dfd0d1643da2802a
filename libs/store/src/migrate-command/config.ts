import { readFileSync } from 'node:fs';
import { AppError } from '@codedock/domain';

/** Where `codedock-migrate` works. */
export interface MigrateConfig {
  readonly url: string;
  readonly dir?: string;
}

/**
 * Reads `DATABASE_DIRECT_URL`, else `DATABASE_URL`, each also from the file named by `…_FILE`, and
 * `CODEDOCK_MIGRATIONS_DIR`. @throws AppError `config_invalid` without a URL, and when a file cannot be read.
 */
export function migrateConfig(environment: NodeJS.ProcessEnv = process.env): MigrateConfig {
  const url = secretOf(environment, 'DATABASE_DIRECT_URL') ?? secretOf(environment, 'DATABASE_URL');
  if (url === undefined || !/^postgres(ql)?:\/\//.test(url)) {
    throw new AppError(
      'config_invalid',
      'DATABASE_URL must be the URL of a PostgreSQL database, postgresql://…, or DATABASE_URL_FILE a file with it.',
    );
  }
  const dir = environment['CODEDOCK_MIGRATIONS_DIR'];
  return { url, ...(dir === undefined || dir === '' ? {} : { dir }) };
}

function secretOf(environment: NodeJS.ProcessEnv, name: string): string | undefined {
  const value = environment[name];
  if (value !== undefined && value !== '') return value;
  const file = environment[`${name}_FILE`];
  if (file === undefined || file === '') return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new AppError(
      'config_invalid',
      `${name}_FILE is "${file}": the file cannot be read (${code}). Check path and rights.`,
      { cause },
    );
  }
}
