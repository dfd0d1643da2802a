import { invalid } from '../http/validation.js';

const VERSION = /^"(\d{1,9})"$/;

/** The entity tag of a version. */
export function tagOf(version: number): string {
  return `"${version}"`;
}

/**
 * The version that `If-Match` names; undefined for `*`, which means whichever there is.
 * @throws AppError `invalid_request` when the header is missing or names no version: a change must say what it changes.
 */
export function versionOf(ifMatch: string | undefined): number | undefined {
  if (ifMatch === '*') return undefined;
  const version = VERSION.exec(ifMatch ?? '')?.[1];
  if (version !== undefined) return Number(version);
  throw invalid('headers', [
    { path: 'If-Match', message: 'must be the ETag of the version to change, such as "3", or * for any' },
  ]);
}
