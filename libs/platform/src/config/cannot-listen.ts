import { AppError } from '@codedock/domain';
import type { Address } from './value-types.js';

/** The address of a variable cannot be listened on; code `config_invalid`. The message has variable, address and remedy. */
export function cannotListen(variable: string, address: Address | string, cause: unknown): AppError {
  const shown = typeof address === 'string' ? address : `${address.host}:${address.port}`;
  const text = cause instanceof Error ? cause.message : String(cause);
  const why = /\bE[A-Z]{4,}\b/.exec(text)?.[0] ?? 'refused';
  return new AppError(
    'config_invalid',
    `${variable} is "${shown}": nothing can listen there (${why}). Set it to a free address of this machine.`,
    { cause },
  );
}
