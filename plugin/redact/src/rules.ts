/** Finds one kind of secret. Patterns take time linear in the text: no repetition can match the same text in two ways. */
export interface Rule {
  readonly name: string;
  readonly pattern: RegExp;
  /** What stands in place of a match; the match itself when it is no secret after all. */
  replace(match: string, groups: Readonly<Record<string, string | undefined>>): string;
}

// Page and form tokens are no credentials, and a tool's output is of no use without them.
const secretName =
  '(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?key)?|(?<!(?:page|next|continuation|cursor|csrf|xsrf)[_-]?)token|passw(?:or)?d|passphrase|private[_-]?key|credentials?)';

/** What stands in place of a secret. */
export function placeholder(kind: string): string {
  return `[redacted:${kind}]`;
}

const privateKeyBlock: Rule = {
  name: 'private-key',
  // An unfinished block is cut to the end of the text: half a key is a secret too.
  pattern:
    /-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----|$)/gi,
  replace: () => placeholder('private-key'),
};

const awsKey: Rule = {
  name: 'aws-key',
  pattern: /(?:AKIA|ASIA)[A-Z0-9]{16,}/gi,
  replace: () => placeholder('aws-key'),
};

const issuedToken: Rule = {
  name: 'token',
  pattern: /(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|xox[abprs]-|sk-)[A-Za-z0-9_-]{20,}/gi,
  replace: () => placeholder('token'),
};

const authorizationHeader: Rule = {
  name: 'authorization',
  pattern:
    /(?<before>authorization\\{0,4}["']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}["']?(?:bearer|basic|token)[ \t]{1,8})[^\s"'\\,;]+/gi,
  replace: (_, { before }) => before + placeholder('token'),
};

const bearerToken: Rule = {
  name: 'bearer',
  pattern: /(?<before>\bbearer[ \t]{1,8})(?<token>[A-Za-z0-9._~+/-]{8,}={0,2})/gi,
  // "Bearer authentication" is prose: a token has a digit or is long.
  replace: (match, { before = '', token = '' }) =>
    /\d/.test(token) || token.length >= 24 ? before + placeholder('token') : match,
};

const jsonWebToken: Rule = {
  name: 'jwt',
  pattern: /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  replace: () => placeholder('token'),
};

const assignment: Rule = {
  name: 'assignment',
  pattern: new RegExp(
    [
      `(?<before>${secretName}[A-Z0-9_-]{0,32}\\\\{0,4}["']?)`,
      '(?<separator>[ \\t]{0,8}(?::=|=>|=|:)[ \\t]{0,8})',
      '(?:',
      '(?<open>\\\\{1,4}["\'])(?<escaped>[^"\'\\\\\\r\\n]+)',
      '|"(?<double>(?:[^"\\\\\\r\\n]|\\\\.)+)',
      "|'(?<single>(?:[^'\\\\\\r\\n]|\\\\.)+)",
      '|(?<bare>[^\\s"\'`&;<>|\\\\]+)',
      ')',
    ].join(''),
    'gi',
  ),
  replace: (match, { before = '', separator = '', open, double, single, bare = '' }) => {
    const start = before + separator;
    if (open !== undefined) return start + open + placeholder('secret');
    if (double !== undefined) return `${start}"${placeholder('secret')}`;
    if (single !== undefined) return `${start}'${placeholder('secret')}`;
    return isBareSecret(separator, bare) ? start + placeholder('secret') : match;
  },
};

// `API_KEY=value` always is one. With a colon or spaces it may be prose or program text ("token: string"), so that the
// value has to look like a secret: six characters, one of them a digit.
function isBareSecret(separator: string, value: string): boolean {
  return separator === '=' || (/^[A-Za-z0-9_+/=~.!@#$%^*-]{6,}/.test(value) && /\d/.test(value));
}

/** Every rule, in the order they are applied: whole blocks before the values inside them. */
export const rules: readonly Rule[] = [
  privateKeyBlock,
  authorizationHeader,
  bearerToken,
  jsonWebToken,
  awsKey,
  issuedToken,
  assignment,
];

const secretMember = new RegExp(`${secretName}$`, 'i');
const longestName = 256;

/** Whether the text under a JSON member of this name is a secret as a whole. */
export function namesSecret(member: string): boolean {
  return member.length <= longestName && secretMember.test(member);
}
