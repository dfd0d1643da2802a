/** What writing fails with where a file system, or what one may use of it, is used up. */
const fullCodes: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

/**
 * The words for an error of working in the temporary folder: that the folder is full, with the remedy, where that is the
 * cause; else the error's own.
 */
export function describeFolderError(error: NodeJS.ErrnoException, temporaryFolder: string): string {
  if (!fullCodes.has(error.code)) return error.message;
  return `the temporary folder ${temporaryFolder} is full (${error.code}); free space there, or set TMPDIR of this host to another folder`;
}
