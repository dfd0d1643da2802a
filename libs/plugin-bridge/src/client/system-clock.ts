import type { TimerClock } from '@codedock/domain';

/** The machine's clock as it was when the process began, carried on without its jumps; timers do not keep the process alive. */
export const systemClock: TimerClock = {
  now: () => Math.round(performance.timeOrigin + performance.now()),
  after(ms, run) {
    // A process that stalled finds timer and answer due in the same turn: what has arrived is taken in before time is up.
    let last: NodeJS.Immediate | undefined;
    const timer = setTimeout(() => {
      last = setImmediate(run);
    }, ms);
    timer.unref();
    return () => {
      clearTimeout(timer);
      clearImmediate(last);
    };
  },
  sleep(ms, signal) {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      timer.unref();
      signal.addEventListener('abort', done, { once: true });
    });
  },
};
