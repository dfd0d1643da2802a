import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { AppError } from '@codedock/domain';

/** The authority to trust, certificate and private key of mutual TLS between the services; PEM. */
export interface TlsFiles {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Paths as the configuration names them: all three or none. */
export interface TlsPaths {
  readonly tlsCaFile: string | undefined;
  readonly tlsCertFile: string | undefined;
  readonly tlsKeyFile: string | undefined;
}

/**
 * The files of mutual TLS; undefined when none is configured.
 * @throws AppError `config_invalid` naming the variable whose file cannot be read, is no PEM, or does not fit the others.
 */
export function readTlsFiles({ tlsCaFile, tlsCertFile, tlsKeyFile }: TlsPaths): TlsFiles | undefined {
  if (tlsCaFile === undefined || tlsCertFile === undefined || tlsKeyFile === undefined) return undefined;
  const ca = contentOf('CODEDOCK_TLS_CA_FILE', tlsCaFile);
  const cert = contentOf('CODEDOCK_TLS_CERT_FILE', tlsCertFile);
  const key = contentOf('CODEDOCK_TLS_KEY_FILE', tlsKeyFile);
  certificateOf('CODEDOCK_TLS_CA_FILE', tlsCaFile, ca);
  if (!certificateOf('CODEDOCK_TLS_CERT_FILE', tlsCertFile, cert).checkPrivateKey(keyOf(tlsKeyFile, key))) {
    throw refused('CODEDOCK_TLS_KEY_FILE', tlsKeyFile, 'the key is not that of CODEDOCK_TLS_CERT_FILE. Set the pair');
  }
  return { ca, cert, key };
}

function contentOf(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unreadable';
    throw refused(variable, path, `the file cannot be read (${code}). Check path and rights`, cause);
  }
}

function certificateOf(variable: string, path: string, content: Buffer): X509Certificate {
  try {
    if (content.includes('-----BEGIN CERTIFICATE-----')) return new X509Certificate(content);
  } catch (cause) {
    throw refused(variable, path, 'its certificate is broken. Write it anew as PEM', cause);
  }
  throw refused(variable, path, 'it holds no certificate. Write one into it as PEM');
}

function keyOf(path: string, content: Buffer) {
  try {
    return createPrivateKey(content);
  } catch {
    // The cause is left out: it is about the content of a secret.
    throw refused(
      'CODEDOCK_TLS_KEY_FILE',
      path,
      'it holds no private key. Write one into it as PEM, without a passphrase',
    );
  }
}

function refused(variable: string, path: string, why: string, cause?: unknown): AppError {
  return new AppError('config_invalid', `${variable} is "${path}": ${why}.`, cause === undefined ? {} : { cause });
}
