import { createHmac, timingSafeEqual } from 'node:crypto';
import { AppError, isJsonObject, type JsonValue } from '@codedock/domain';

/** What a plugin may do while one call of it is open: call back for this session (and run). */
export interface Capability {
  readonly tenant: string;
  readonly session: string;
  /** Absent at `beforeInput`, where no run exists. */
  readonly run?: string;
  /** The profile asked for, where no run says it yet. */
  readonly agent?: string;
  readonly mode?: string;
  /** Gate name, ledger event name, or id of the tool call. */
  readonly subject: string;
  /** Milliseconds since the epoch; not valid from then on. */
  readonly expiresAt: number;
}

/** Makes the signed bytes of a capability; what a plugin gets, opaque to it. */
export type CapabilitySigner = (capability: Capability) => Buffer;

/** A verified capability, or why it is none. */
export type VerifiedCapability =
  | { readonly kind: 'valid'; readonly capability: Capability }
  | { readonly kind: 'refused'; readonly reason: 'missing' | 'malformed' | 'wrong signature' | 'expired' };

/** Shortest key, in bytes of UTF-8. */
export const MIN_CAPABILITY_KEY_BYTES = 32;

const LONGEST_CAPABILITY = 4096;

/**
 * Signs with HMAC-SHA256: `base64url(JSON).base64url(MAC)` in ASCII.
 * @throws AppError `config_invalid` for a key under 32 bytes.
 */
export function capabilitySigner(key: string): CapabilitySigner {
  const secret = checkedKey(key);
  return (capability) => {
    const body = Buffer.from(JSON.stringify(capability)).toString('base64url');
    return Buffer.from(`${body}.${mac(secret, body).toString('base64url')}`);
  };
}

/**
 * Checks signature and expiry at `now` (milliseconds since the epoch). Never throws for what a peer sent. Accepted are the
 * signatures of any of the keys, so that a key can be changed while calls are open.
 * @throws AppError `config_invalid` for a key under 32 bytes.
 */
export function capabilityVerifier(
  ...keys: readonly [string, ...string[]]
): (bytes: Uint8Array, now: number) => VerifiedCapability {
  const secrets = keys.map(checkedKey);
  return (bytes, now) => {
    if (bytes.length === 0) return { kind: 'refused', reason: 'missing' };
    if (bytes.length > LONGEST_CAPABILITY) return { kind: 'refused', reason: 'malformed' };
    const [body = '', signature = '', ...rest] = Buffer.from(bytes).toString('latin1').split('.');
    if (body === '' || signature === '' || rest.length > 0) return { kind: 'refused', reason: 'malformed' };
    const given = Buffer.from(signature, 'base64url');
    if (!secrets.some((secret) => sameBytes(mac(secret, body), given))) {
      return { kind: 'refused', reason: 'wrong signature' };
    }
    const capability = readCapability(body);
    if (capability === undefined) return { kind: 'refused', reason: 'malformed' };
    return now >= capability.expiresAt ? { kind: 'refused', reason: 'expired' } : { kind: 'valid', capability };
  };
}

/**
 * What a capability says, without checking it: for the plugin-host, which chooses among the capabilities of open calls
 * by session, run and expiry and holds no key. Undefined when unreadable.
 */
export function peekCapability(bytes: Uint8Array): Capability | undefined {
  if (bytes.length > LONGEST_CAPABILITY) return undefined;
  return readCapability(Buffer.from(bytes).toString('latin1').split('.')[0] ?? '');
}

function checkedKey(key: string): Buffer {
  const secret = Buffer.from(key);
  if (secret.length >= MIN_CAPABILITY_KEY_BYTES) return secret;
  throw new AppError(
    'config_invalid',
    `CODEDOCK_CAPABILITY_KEY has ${secret.length} bytes; set at least ${MIN_CAPABILITY_KEY_BYTES} random ones, the same in gateway and runner.`,
  );
}

function sameBytes(expected: Buffer, given: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function mac(secret: Buffer, body: string): Buffer {
  return createHmac('sha256', secret).update(body).digest();
}

function readCapability(body: string): Capability | undefined {
  let value: JsonValue;
  try {
    value = JSON.parse(Buffer.from(body, 'base64url').toString('utf8')) as JsonValue;
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const { tenant, session, run, agent, mode, subject, expiresAt } = value;
  if (typeof tenant !== 'string' || typeof session !== 'string' || typeof subject !== 'string') return undefined;
  if (typeof expiresAt !== 'number') return undefined;
  const optional = { run, agent, mode };
  for (const text of Object.values(optional)) if (text !== undefined && typeof text !== 'string') return undefined;
  return { tenant, session, ...(present(optional) as Pick<Capability, 'run' | 'agent' | 'mode'>), subject, expiresAt };
}

function present(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
