import { readFileSync } from 'node:fs';
import { AppError } from '@codedock/domain';
import type { AppConfig } from '@codedock/platform';

/** Certificate, key and the authority to trust between the services, PEM. */
export interface InternalTls {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** The files of mutual TLS; undefined when none is configured. @throws AppError `config_invalid` naming the file that cannot be read. */
export function readInternalTls(
  config: Pick<AppConfig<'gateway'>, 'tlsCaFile' | 'tlsCertFile' | 'tlsKeyFile'>,
): InternalTls | undefined {
  const { tlsCaFile, tlsCertFile, tlsKeyFile } = config;
  if (tlsCaFile === undefined || tlsCertFile === undefined || tlsKeyFile === undefined) return undefined;
  return {
    ca: read('CODEDOCK_TLS_CA_FILE', tlsCaFile),
    cert: read('CODEDOCK_TLS_CERT_FILE', tlsCertFile),
    key: read('CODEDOCK_TLS_KEY_FILE', tlsKeyFile),
  };
}

function read(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new AppError('config_invalid', `${variable}: ${path} cannot be read; check path and rights.`, { cause });
  }
}
