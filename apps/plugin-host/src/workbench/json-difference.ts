import { isDeepStrictEqual } from 'node:util';

const shownCharacters = 120;

/** Every place where two JSON values differ, as `<pointer>: recorded …, now …`. The place of the values themselves is "". */
export function jsonDifferences(recorded: unknown, now: unknown, at = ''): string[] {
  if (isDeepStrictEqual(recorded, now)) return [];
  if (isContainer(recorded) && isContainer(now) && Array.isArray(recorded) === Array.isArray(now)) {
    const names = new Set([...Object.keys(recorded), ...Object.keys(now)]);
    return [...names].flatMap((name) =>
      jsonDifferences(Reflect.get(recorded, name), Reflect.get(now, name), `${at}/${pointerPart(name)}`),
    );
  }
  return [`${at}: recorded ${shown(recorded)}, now ${shown(now)}`];
}

/** A value in a message, cut where it is long. */
export function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}… (${text.length} characters)` : text;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
