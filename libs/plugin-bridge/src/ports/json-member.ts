const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * The raw text of one member's value in the text of a JSON object, exactly as written and without the white space
 * around it; undefined when the object has no such member. Of duplicate names the last counts, as in `JSON.parse`.
 * The text must be valid JSON (parse it first): on anything else the result is meaningless.
 */
export function rawMember(text: string, name: string): string | undefined {
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== OPEN_BRACE) return undefined;
  let found: string | undefined;
  at = skipSpace(text, at + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACE) {
    const nameEnd = endOfString(text, at);
    const memberName = text.slice(at, nameEnd);
    at = skipSpace(text, nameEnd);
    if (text.charCodeAt(at) !== COLON) return undefined;
    const start = skipSpace(text, at + 1);
    const end = endOfValue(text, start);
    if (isName(memberName, name)) found = text.slice(start, end);
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return found;
}

function isName(quoted: string, name: string): boolean {
  return quoted.includes('\\')
    ? JSON.parse(quoted) === name
    : quoted.length === name.length + 2 && quoted.startsWith(name, 1);
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
  }
  return at;
}

// `from` is the opening quote; the result is behind the closing one.
function endOfString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let backslashes = 0;
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function endOfValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return endOfString(text, from);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return endOfScalar(text, from);
  let open = 0;
  let at = from;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) open += 1;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      open -= 1;
      if (open === 0) return at + 1;
    }
    at += 1;
  }
  return text.length;
}

function endOfScalar(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20) break;
  }
  return at;
}
