import { fstatSync } from 'node:fs';

const CHECK_MS = 500;

/**
 * Calls `onGone` once when the process that started this one is gone: its end of standard input closed (where that is
 * a pipe), or this process was given another parent. Returns a function that stops watching.
 * Does not keep the process alive.
 */
export function watchParent(onGone: () => void): () => void {
  const parent = process.ppid;
  const input = inputIsPipe() ? process.stdin : undefined;
  const stop = () => {
    clearInterval(timer);
    input?.off('end', gone);
    input?.off('close', gone);
  };
  const gone = () => {
    stop();
    onGone();
  };
  const timer = setInterval(() => {
    if (process.ppid !== parent) {
      gone();
    }
  }, CHECK_MS);
  timer.unref();
  if (input) {
    input.once('end', gone);
    input.once('close', gone);
    input.on('error', () => undefined);
    input.resume();
    (input as unknown as { unref?: () => void }).unref?.();
  }
  return stop;
}

// A terminal or /dev/null says nothing about the parent: the latter is at its end from the beginning.
function inputIsPipe(): boolean {
  try {
    const stats = fstatSync(0);
    return stats.isFIFO() || stats.isSocket();
  } catch {
    return false;
  }
}
