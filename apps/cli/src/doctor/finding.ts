/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  /** `warning`: works, and will not for long or not well. `skipped`: could not be looked at from here. */
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  /** Which part, variable, file or address. */
  readonly where: string;
  /** What is there, or what is wrong. */
  readonly detail: string;
  readonly remedy?: string;
}

/** The same check for one place after another. */
export function about(check: string, where: string) {
  const finding = (state: Finding['state']) => (detail: string, remedy?: string) => ({
    check,
    state,
    where,
    detail,
    ...(remedy === undefined ? {} : { remedy }),
  });
  return { ok: finding('ok'), warning: finding('warning'), failed: finding('failed'), skipped: finding('skipped') };
}

/** The text of an error that says what is wrong and what to do. */
export function textOfError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
