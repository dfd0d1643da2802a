import { AppError, isId } from '@codedock/domain';

/** Refuses what cannot be an id before it reaches the database: such a thing does not exist. */
export function existing(kind: string, id: string): string {
  if (!isId(id)) throw missing(kind, id);
  return id;
}

/** The error for something that does not exist, or is another tenant's. */
export function missing(kind: string, id: string): AppError {
  return new AppError('not_found', `There is no ${kind} ${JSON.stringify(id.slice(0, 64))}.`);
}
