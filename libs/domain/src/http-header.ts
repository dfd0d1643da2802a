const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/i;

/** Belong to the connection: whoever sets them could smuggle a request or break framing. */
const CONNECTION: ReadonlySet<string> = new Set([
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

/** Carry the provider's credentials: no hook sees or sets them. */
const CREDENTIALS: ReadonlySet<string> = new Set([
  'api-key',
  'authorization',
  'cookie',
  'proxy-authorization',
  'set-cookie',
  'x-api-key',
]);

/** Whether a header, in whatever case, carries credentials: shown to no hook, set by none. */
export function isCredentialHeader(name: string): boolean {
  return CREDENTIALS.has(name.toLowerCase());
}

/** Whether a header, in whatever case, belongs to the connection: it is computed after the gates. */
export function isConnectionHeader(name: string): boolean {
  return CONNECTION.has(name.toLowerCase());
}

/** Whether a text can be the name of an HTTP header. */
export function isHeaderName(name: string): boolean {
  return NAME.test(name);
}
