import { z } from 'zod';
import { Secret } from './secret.js';

/** How a variable's text becomes a value. `kind` is what the documentation calls it. */
export interface ValueType<T> {
  readonly kind: string;
  readonly schema: z.ZodType<T, string>;
}

/** Host and port of one end of a connection. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

const DURATION_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1_000,
  KB: 1_000,
  MB: 1_000_000,
  GB: 1_000_000_000,
  KiB: 1_024,
  MiB: 1_048_576,
  GiB: 1_073_741_824,
};

/** Limits of a number, both included. */
export interface Range {
  readonly min?: number;
  readonly max?: number;
}

/** Milliseconds of a duration such as `500ms`, `2s`, `1.5m`, `24h`, `7d`; a bare number is milliseconds. */
export function parseDuration(text: string): number | undefined {
  return parseWithUnit(text, DURATION_UNITS, 'ms');
}

/** Bytes of a size such as `64KiB`, `4MiB`, `1GB`; a bare number is bytes. */
export function parseSize(text: string): number | undefined {
  return parseWithUnit(text, SIZE_UNITS, 'B');
}

/** A duration in milliseconds. Limits in milliseconds. */
export function duration(range: Range = {}): ValueType<number> {
  return fromText('duration', (text) =>
    inRange(parseDuration(text), range, 'Write a number with ms, s, m, h or d, such as 2s or 500ms', (ms) => `${ms}ms`),
  );
}

/** A whole number. */
export function integer(range: Range = {}): ValueType<number> {
  return fromText('integer', (text) =>
    inRange(/^-?\d+$/.test(text) ? Number(text) : undefined, range, 'Write a whole number', String),
  );
}

/** `true` or `false` (also 1 and 0). */
export function flag(): ValueType<boolean> {
  return fromText('true or false', (text) => {
    const value = { true: true, '1': true, false: false, '0': false }[text.toLowerCase()];
    return value === undefined ? problem('Write true or false') : { value };
  });
}

/** One of a few words. */
export function choice<const T extends string>(words: readonly T[]): ValueType<T> {
  return fromText(words.join(' \\| '), (text) => {
    const value = words.find((word) => word === text);
    return value === undefined ? problem(`Write one of ${words.join(', ')}`) : { value };
  });
}

/** Any text that is not empty. */
export function text(kind = 'text'): ValueType<string> {
  return fromText(kind, (value) => ({ value }));
}

/** A URL with one of the given protocols (`https:`). */
export function url(protocols: readonly string[]): ValueType<string> {
  return fromText('URL', (value) => checkUrl(value, protocols));
}

/** A URL that may contain a password. */
export function secretUrl(protocols: readonly string[]): ValueType<Secret> {
  return fromText('URL', (value) => {
    const checked = checkUrl(value, protocols);
    return 'value' in checked ? { value: new Secret(checked.value) } : checked;
  });
}

/** A secret of at least `minLength` characters. */
export function secretText(minLength = 1): ValueType<Secret> {
  return fromText('secret', (value) =>
    value.length < minLength
      ? problem(`Use at least ${minLength} characters, e.g. from: openssl rand -hex 32`)
      : { value: new Secret(value) },
  );
}

/** A key of exactly `bytes` bytes, in hexadecimal or base64. Its value is the text; `keyBytes` reads it. */
export function secretKey(bytes: number): ValueType<Secret> {
  return fromText('key', (value) =>
    keyBytes(value, bytes) === undefined
      ? problem(`Use ${bytes} random bytes in hexadecimal or base64, e.g. from: openssl rand -hex ${bytes}`)
      : { value: new Secret(value) },
  );
}

/** Secrets of at least `minLength` characters, separated by commas. */
export function secretList(minLength: number): ValueType<readonly Secret[]> {
  return secretsOf('secrets, …', (each) => each.length >= minLength, `Use at least ${minLength} characters for each`);
}

/** Keys of exactly `bytes` bytes each, in hexadecimal or base64, separated by commas. */
export function secretKeyList(bytes: number): ValueType<readonly Secret[]> {
  const remedy = `Use ${bytes} random bytes in hexadecimal or base64 for each, separated by commas`;
  return secretsOf('keys, …', (each) => keyBytes(each, bytes) !== undefined, remedy);
}

function secretsOf(kind: string, isSecret: (text: string) => boolean, remedy: string): ValueType<readonly Secret[]> {
  return fromText(kind, (value) => {
    const all = splitList(value, ',');
    return all.length > 0 && all.every(isSecret)
      ? { value: Object.freeze(all.map((each) => new Secret(each))) }
      : problem(remedy);
  });
}

/** Names separated by commas. */
export function nameList(): ValueType<readonly string[]> {
  return fromText('name, …', (value) => {
    const names = splitList(value, ',');
    return names.length > 0 ? { value: Object.freeze(names) } : problem('Write names, several separated by commas');
  });
}

/** The bytes of a key written in hexadecimal or base64; undefined when there are not exactly so many. */
export function keyBytes(text: string, bytes: number): Buffer | undefined {
  if (text.length === bytes * 2 && /^[0-9a-fA-F]+$/.test(text)) return Buffer.from(text, 'hex');
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) return undefined;
  const decoded = Buffer.from(text, 'base64');
  return decoded.length === bytes ? decoded : undefined;
}

/** `host:port`; IPv6 hosts in brackets. */
export function address(): ValueType<Address> {
  return fromText('host:port', (value) => {
    const parsed = parseAddress(value);
    return parsed ? { value: parsed } : problem('Write host:port, such as 127.0.0.1:7070 or [::1]:7070');
  });
}

/** Comma-separated `host:port`. */
export function addressList(): ValueType<readonly Address[]> {
  return fromText('host:port, …', (value) => {
    const parsed = splitList(value, ',').map(parseAddress);
    const complete = parsed.filter((each) => each !== undefined);
    return complete.length === parsed.length && parsed.length > 0
      ? { value: Object.freeze(complete) }
      : problem('Write host:port, several separated by commas');
  });
}

/** Folders separated like PATH. */
export function folderList(): ValueType<readonly string[]> {
  return fromText('folder:…', (value) => ({ value: Object.freeze(splitList(value, ':')) }));
}

/** Comma-separated web origins, such as `https://app.example.com`. */
export function originList(): ValueType<readonly string[]> {
  return fromText('origin, …', (value) => {
    const origins = splitList(value, ',');
    const wrong = origins.find((each) => !URL.canParse(each) || new URL(each).origin !== each);
    return wrong === undefined
      ? { value: Object.freeze(origins) }
      : problem(`"${wrong}" is no origin: write scheme and host without a path, such as https://app.example.com`);
  });
}

/** Whether a host is this machine itself. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

type Parsed<T> = { readonly value: T } | { readonly problem: string };

function problem(remedy: string): { readonly problem: string } {
  return { problem: remedy };
}

function fromText<T>(kind: string, parse: (text: string) => Parsed<T>): ValueType<T> {
  const schema = z.string().transform((value, context): T => {
    const parsed = parse(value);
    if ('value' in parsed) {
      return parsed.value;
    }
    context.addIssue({ code: 'custom', message: parsed.problem });
    return z.NEVER;
  });
  return { kind, schema };
}

function inRange(
  value: number | undefined,
  { min = 0, max = Number.MAX_SAFE_INTEGER }: Range,
  remedy: string,
  show: (value: number) => string,
): Parsed<number> {
  if (value === undefined) {
    return problem(remedy);
  }
  if (value < min || value > max) {
    const limits = max === Number.MAX_SAFE_INTEGER ? `at least ${show(min)}` : `from ${show(min)} to ${show(max)}`;
    return problem(`It must be ${limits}`);
  }
  return { value };
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>, bare: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text);
  const unit = match?.[2] || bare;
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  return match && factor !== undefined ? Math.round(Number(match[1]) * factor) : undefined;
}

/** Some protocols name several hosts, separated by commas, which is more than a URL's authority can (RFC 3986, 3.2.2). */
const FURTHER_HOSTS = /^([a-z]+\+[a-z]+:\/\/(?:[^/?#]*@)?[^/?#,]*),[^/?#]*/i;

function checkUrl(value: string, protocols: readonly string[]): Parsed<string> {
  const expected = protocols.map((protocol) => `${protocol}//`).join(' or ');
  const url = value.replace(FURTHER_HOSTS, '$1');
  return URL.canParse(url) && protocols.includes(new URL(url).protocol)
    ? { value }
    : problem(`Write a URL that begins with ${expected}`);
}

function parseAddress(value: string): Address | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(value);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  return host !== undefined && port <= 65_535 ? Object.freeze({ host, port }) : undefined;
}

function splitList(value: string, separator: string): string[] {
  return value
    .split(separator)
    .map((each) => each.trim())
    .filter((each) => each !== '');
}
