const shownCharacters = 200;

/**
 * The first place where a value is not the expected one, in words; undefined when there is none. A regular expression in
 * the expected value stands for any text it matches; a member that is undefined is an absent one.
 */
export function difference(expected: unknown, actual: unknown, at = ''): string | undefined {
  if (expected instanceof RegExp) {
    return typeof actual === 'string' && expected.test(actual)
      ? undefined
      : `${place(at)} is ${shown(actual)}, expected a text like ${expected}`;
  }
  if (Array.isArray(expected) && Array.isArray(actual)) {
    if (expected.length !== actual.length)
      return `${place(at)} has ${actual.length} entries, expected ${expected.length}`;
    return firstOf(expected.map((one, index) => difference(one, actual[index], `${at}[${index}]`)));
  }
  if (isObject(expected) && isObject(actual)) {
    const names = new Set([...Object.keys(expected), ...Object.keys(actual)]);
    return firstOf(
      [...names].map((name) => difference(expected[name], actual[name], at === '' ? name : `${at}.${name}`)),
    );
  }
  return Object.is(expected, actual) ? undefined : `${place(at)} is ${shown(actual)}, expected ${shown(expected)}`;
}

/** @throws Error saying where the value is not the expected one. */
export function requireEqual(expected: unknown, actual: unknown, what = ''): void {
  const found = difference(expected, actual, what);
  if (found !== undefined) throw new Error(found);
}

function firstOf(found: readonly (string | undefined)[]): string | undefined {
  return found.find((one) => one !== undefined);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function place(at: string): string {
  return at === '' ? 'it' : at;
}

function shown(value: unknown): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}… (${text.length} characters)` : text;
}
