import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** True when PATH holds an executable of that name. */
export function executableOnPath(name) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
