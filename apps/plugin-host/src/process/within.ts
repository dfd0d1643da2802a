import { AppError } from '@codedock/domain';

/** The value, or AppError `plugin_refused` with the message when it takes longer. */
export async function within<T>(value: Promise<T>, timeoutMs: number, message: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new AppError('plugin_refused', message())), timeoutMs);
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}
