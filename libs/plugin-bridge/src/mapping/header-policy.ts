import type { HttpHeaders } from '@codedock/domain';

const CREDENTIALS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'api-key',
  'x-api-key',
]);
const TRANSPORT: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
const BREAKS_HEADER = /[\r\n\u0000]/;

/** Whether a header carries credentials: never sent to a plugin, never set by one. `name` is lower-case. */
export function isCredentialHeader(name: string): boolean {
  return CREDENTIALS.has(name);
}

/** The headers a plugin may see: lower-case names, without credentials. */
export function visibleHeaders(headers: HttpHeaders): Record<string, string> {
  const visible: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (!isCredentialHeader(lower)) visible[lower] = value;
  }
  return visible;
}

/** Why a plugin may not set this header; undefined when it may. `name` is lower-case. */
export function headerRefusal(name: string, value: string): string | undefined {
  if (isCredentialHeader(name)) return 'it carries credentials';
  if (TRANSPORT.has(name)) return 'the host sets it';
  if (!TOKEN.test(name)) return 'the name is no HTTP token';
  if (BREAKS_HEADER.test(value)) return 'the value has CR, LF or NUL';
  return undefined;
}
