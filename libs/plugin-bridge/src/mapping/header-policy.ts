import { type HttpHeaders, isConnectionHeader, isCredentialHeader, isHeaderName } from '@codedock/domain';

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
const BREAKS_HEADER = /[\r\n\u0000]/;

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
  if (isConnectionHeader(name)) return 'the host sets it';
  if (!isHeaderName(name)) return 'the name is no HTTP token';
  if (BREAKS_HEADER.test(value)) return 'the value has CR, LF or NUL';
  return undefined;
}
