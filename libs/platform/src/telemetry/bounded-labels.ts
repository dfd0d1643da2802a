import type { Attributes } from '@opentelemetry/api';

/** Values of one label that get series of their own; further ones share the value `other`. */
const MOST_VALUES = 200;
const LONGEST_VALUE = 128;
const OTHER = 'other';
const PLAIN = /^[\w .:/@+-]+$/;

/**
 * Keeps the series of one metric few, whatever plugins, tools and profiles are called: the first 200 values of each label
 * stay as they are, everything later, longer than 128 characters or of unusual characters is `other`.
 */
export function boundedLabels<A extends Attributes>(): (attributes: A) => A {
  const known = new Map<string, Set<string>>();
  return (attributes) => {
    let changed: Record<string, string> | undefined;
    for (const [name, value] of Object.entries(attributes)) {
      const bounded = boundedValue(known, name, String(value));
      if (bounded !== value) changed = { ...changed, [name]: bounded };
    }
    return changed === undefined ? attributes : { ...attributes, ...changed };
  };
}

function boundedValue(known: Map<string, Set<string>>, name: string, value: string): string {
  const values = known.get(name) ?? new Set<string>();
  known.set(name, values);
  if (values.has(value)) return value;
  if (values.size >= MOST_VALUES || value.length > LONGEST_VALUE || !PLAIN.test(value)) return OTHER;
  values.add(value);
  return value;
}
