const EVERY_MS = 500;

/**
 * Resolves when the npm that started this process is gone; never for one that a shell started. npm passes a SIGTERM on to
 * the shell between the two, which dies of it and tells nobody.
 */
export function npmGone() {
  if (process.env.npm_lifecycle_event !== 'start') return new Promise(() => {});
  const parent = process.ppid;
  return new Promise((resolve) => {
    setInterval(() => process.ppid !== parent && resolve(), EVERY_MS).unref();
  });
}
