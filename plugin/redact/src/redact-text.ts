import { rules } from './rules.js';

/** A text without its secrets; the same text when it has none. */
export function redactText(text: string): string {
  let redacted = text;
  for (const { pattern, replace } of rules) {
    redacted = redacted.replace(pattern, (match: string, ...rest: unknown[]) => {
      const groups = rest.at(-1);
      return replace(match, typeof groups === 'object' ? (groups as Record<string, string | undefined>) : {});
    });
  }
  return redacted;
}
