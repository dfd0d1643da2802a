import type { Attributes } from '@opentelemetry/api';
import { redactLine } from '../logging/index.js';

/** UTF-16 code units of one attribute at most. */
const LONGEST = 32_768;

let captured = false;

/** Whether spans may hold what users, models and tools said. */
export function captureContent(wanted: boolean): void {
  captured = wanted;
}

/**
 * An attribute with something that was said, as JSON without what looks like a secret, cut at 32 Ki characters; nothing
 * unless the operator has switched content on. `value` is called only then.
 */
export function contentAttribute(name: string, value: () => unknown): Attributes {
  if (!captured) return {};
  const text = redactLine(JSON.stringify(value()) ?? '');
  return { [name]: text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text };
}
