import { type HttpHeaders, isConnectionHeader, isCredentialHeader, isHeaderName } from '@codedock/domain';

/** A header change that was not made, and why; safe to show and to store. */
export interface HeaderRefusal {
  readonly name: string;
  readonly reason: string;
}

/** Headers after the policy, and what it refused. */
export interface JudgedHeaders {
  readonly headers: HttpHeaders;
  readonly refused: readonly HeaderRefusal[];
}

// HTTP/1.1 field values are bytes: printable Latin-1 and the tab.
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function reasonAgainst(name: string, value: string): string | undefined {
  if (!isHeaderName(name)) return 'this is no header name';
  if (isConnectionHeader(name)) return 'this header is computed after the gates';
  if (isCredentialHeader(name)) return 'this header carries credentials, which are added after the gates';
  if (/[\r\n\0]/.test(value)) return 'the value holds a line break or NUL';
  if (!VALUE.test(value)) return 'the value holds characters that no HTTP header can carry';
  return undefined;
}

/**
 * What a hook may make of a request's headers. Names are compared in lower case. A refused change leaves the header as
 * it was before (absent, if it was absent); removing a header is allowed, unless it belongs to the connection or
 * carries credentials. Total: any two records give an answer that HTTP can carry, as long as `before` is one.
 */
export function judgeHeaders(before: HttpHeaders, asked: HttpHeaders): JudgedHeaders {
  const headers = new Map<string, string>();
  const refused: HeaderRefusal[] = [];
  const original = new Map(Object.entries(before).map(([name, value]) => [name.toLowerCase(), value]));
  for (const [spelled, value] of Object.entries(asked)) {
    const name = spelled.toLowerCase();
    const same = original.get(name) === value;
    const reason = same ? undefined : reasonAgainst(name, value);
    if (reason === undefined) {
      headers.set(name, value);
      continue;
    }
    refused.push({ name, reason });
    const kept = original.get(name);
    if (kept !== undefined) headers.set(name, kept);
  }
  for (const [name, value] of original) {
    if (!headers.has(name) && (isConnectionHeader(name) || isCredentialHeader(name))) headers.set(name, value);
  }
  return { headers: Object.fromEntries(headers), refused };
}
