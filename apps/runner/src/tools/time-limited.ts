import type { ToolExecution } from '@codedock/domain';

/**
 * The outcome of an execution in this process, or `unknown` as soon as its time is up or its signal aborts: it may
 * still take effect.
 */
export function timeLimited(
  timeoutMs: number,
  signal: AbortSignal,
  execute: () => Promise<ToolExecution>,
): Promise<ToolExecution> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve({ kind: 'unknown', error: 'the execution was stopped' });
    const settle = (execution: ToolExecution) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      resolve(execution);
    };
    const aborted = () => settle({ kind: 'unknown', error: 'the execution was stopped' });
    const timer = setTimeout(() => settle({ kind: 'unknown', error: `no outcome within ${timeoutMs} ms` }), timeoutMs);
    signal.addEventListener('abort', aborted, { once: true });
    execute().then(settle, () => settle({ kind: 'unknown', error: 'the execution broke off' }));
  });
}
