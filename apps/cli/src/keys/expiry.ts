const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * RFC 3339 time a duration after `now` (milliseconds since the epoch).
 * @throws for anything but a whole number with m, h or d, or beyond ten years.
 */
export function expiryAfter(duration: string, now: number, option = '--expires'): string {
  const match = /^([1-9]\d{0,6})([mhd])$/.exec(duration);
  const ms = match === null ? Number.NaN : Number(match[1]) * (UNITS[match[2] ?? ''] ?? Number.NaN);
  if (!(ms <= 3_660 * 86_400_000))
    throw new Error(`${option} takes a duration such as 90m, 12h or 30d, at most ten years, not "${duration}".`);
  return new Date(now + ms).toISOString();
}
