const REDACTED = '[redacted]';
const MAX_DEPTH = 8;

// Names whose value is a secret whatever it looks like.
const SECRET_NAME =
  /^(authorization|proxy-authorization|cookie|set-cookie|x-api-key|password|passwd|secret|token|api[-_]?key|private[-_]?key|client[-_]?secret|access[-_]?token|refresh[-_]?token|capability|credentials?)$|(_|-)(secret|password|token|api_?key)$|[a-z](Secret|Password|Token|ApiKey|PrivateKey)$/i;

// Values that are secrets wherever they stand. None of them matches a quote or a backslash, so a JSON line stays JSON.
const SECRET_VALUES: readonly (readonly [RegExp, string])[] = [
  // user:password@ of a URL
  [/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/@"\\]*:)[^\s@"\\]+@/gi, `$1${REDACTED}@`],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  // keys with a prefix: sk-…, cdk_…, ghp_…, xoxb-…, AKIA…
  [/\bsk-[A-Za-z0-9_-]{16,}/g, REDACTED],
  [/\b(cdk|codedock|ghp|gho|ghs|github_pat|glpat|xox[abpors])[_-][A-Za-z0-9_-]{16,}/g, REDACTED],
  [/\b(AKIA|ASIA)[A-Z0-9]{16}\b/g, REDACTED],
  // JSON web tokens
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g, REDACTED],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?-----END [A-Z ]*PRIVATE KEY-----/g, REDACTED],
];

/** Replaces what looks like a secret in a text: passwords in URLs, bearer tokens, API keys, private keys. */
export function redactText(text: string): string {
  return SECRET_VALUES.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), text);
}

// Every text of the line in turn, so that no match begins inside one; a name is taken together with its text value.
const JSON_TEXT = /"((?:[^"\\]|\\.)*)"(:"(?:[^"\\]|\\.)*")?/g;

/** Replaces secrets in a line of JSON: text members with a secret's name, and secrets inside texts. It stays JSON. */
export function redactLine(line: string): string {
  return redactText(
    line.replace(JSON_TEXT, (found, name: string, value: string | undefined) =>
      value !== undefined && SECRET_NAME.test(name) ? `"${name}":"${REDACTED}"` : found,
    ),
  );
}

/**
 * A copy of a value with every secret replaced: members with a secret's name, and secrets inside texts.
 * Deeper than 8 levels it says `[deep]`; cycles say `[cycle]`. Never throws.
 */
export function redactValue(value: unknown): unknown {
  return redact(value, 0, []);
}

function redact(value: unknown, depth: number, above: readonly object[]): unknown {
  if (typeof value === 'string') {
    return redactText(value);
  }
  if (typeof value === 'bigint') {
    return String(value);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  if (above.includes(value)) {
    return '[cycle]';
  }
  if (depth >= MAX_DEPTH) {
    return '[deep]';
  }
  const path = [...above, value];
  if (value instanceof Error) {
    return redactError(value, depth, path);
  }
  if (Array.isArray(value)) {
    return value.map((each) => redact(each, depth + 1, path));
  }
  if (ArrayBuffer.isView(value)) {
    return `[${value.byteLength} bytes]`;
  }
  const ownText = ownJson(value);
  if (ownText !== value) {
    return redact(ownText, depth + 1, path);
  }
  return redactMembers(value, depth, path);
}

function redactMembers(value: object, depth: number, path: readonly object[]): Record<string, unknown> {
  // fromEntries defines members, so one called __proto__ stays a member.
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const hidden = SECRET_NAME.test(name) && member !== undefined && member !== null && typeof member !== 'boolean';
      return [name, hidden ? REDACTED : redact(member, depth + 1, path)];
    }),
  );
}

function redactError(error: Error, depth: number, path: readonly object[]): Record<string, unknown> {
  const described: Record<string, unknown> = {
    type: error.name,
    message: redactText(error.message),
    ...(error.stack ? { stack: redactText(error.stack) } : {}),
    ...redactMembers(error, depth, path),
  };
  if (error.cause !== undefined) {
    described['cause'] = redact(error.cause, depth + 1, path);
  }
  return described;
}

function ownJson(value: object): unknown {
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON !== 'function') {
    return value;
  }
  try {
    return toJSON.call(value) as unknown;
  } catch {
    return '[unprintable]';
  }
}
