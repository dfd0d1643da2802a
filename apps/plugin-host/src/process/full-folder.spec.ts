import { describeFolderError } from './full-folder.js';

const errorOf = (code: string) => Object.assign(new Error(`${code}: write`), { code });

describe('an error of working in the temporary folder', () => {
  it.each(['ENOSPC', 'EDQUOT'])('names the folder and the remedy where it is full (%s)', (code) => {
    expect(describeFolderError(errorOf(code), '/tmp/small')).toBe(
      `the temporary folder /tmp/small is full (${code}); free space there, or set TMPDIR of this host to another folder`,
    );
  });

  it('keeps its own words where it is not', () => {
    expect(describeFolderError(errorOf('EACCES'), '/tmp/small')).toBe('EACCES: write');
  });
});
