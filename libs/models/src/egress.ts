import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { AppError } from '@codedock/domain';
import { Agent } from 'undici';

/** Where a model's requests may go. */
export interface EgressPolicy {
  /** Origins (`https://api.example.com`, with port where it is not the scheme's own) that requests may go to. */
  readonly origins: readonly string[];
  /** Allows addresses inside private networks, besides a loopback origin that is configured as such. */
  readonly allowPrivateNetwork: boolean;
}

/** Which addresses that are not public a client may connect to. */
export interface Reach {
  readonly privateNetwork: boolean;
  readonly loopback: boolean;
  /** What a refused connection fails with; names the remedy. */
  readonly refusal: () => Error;
}

const PRIVATE = new BlockList();
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  PRIVATE.addSubnet(net, bits, 'ipv4');
}
for (const [net, bits] of [
  ['::', 128],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
  ['64:ff9b::', 96],
] as const) {
  PRIVATE.addSubnet(net, bits, 'ipv6');
}
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether an IP address is public, loopback or inside a private or special range. */
export function addressKind(address: string): 'public' | 'loopback' | 'private' {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  const ip = mapped ?? address;
  const family = isIP(ip) === 6 ? 'ipv6' : 'ipv4';
  if (LOOPBACK.check(ip, family)) return 'loopback';
  // Other notations of IPv4 inside IPv6 cannot be told apart safely, so they count as private.
  if (PRIVATE.check(ip, family) || (family === 'ipv6' && /^::ffff:/i.test(ip))) return 'private';
  return 'public';
}

function isLoopbackName(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return name === 'localhost' || (isIP(name) !== 0 && addressKind(name) === 'loopback');
}

/**
 * The URL, if it belongs to a configured origin.
 * @throws AppError `provider_rejected` naming the origin.
 */
export function requireOrigin(url: string, policy: EgressPolicy): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !policy.origins.includes(parsed.origin)) {
    throw new AppError(
      'provider_rejected',
      `The model's base URL ${parsed?.origin ?? '(invalid)'} is not among the allowed provider origins: set OPENAI_BASE_URL or change the agent's model.`,
    );
  }
  return parsed;
}

/** The HTTP client of a model provider. A loopback origin that is configured as such is reached. */
export function providerAgent(policy: EgressPolicy): Agent {
  return guardedAgent({
    privateNetwork: policy.allowPrivateNetwork,
    loopback: policy.allowPrivateNetwork || policy.origins.some((origin) => isLoopbackName(new URL(origin).hostname)),
    refusal: () =>
      new AppError(
        'provider_rejected',
        'The model provider resolves to an address inside a private network: set CODEDOCK_PROVIDER_ALLOW_PRIVATE=true if that is intended.',
      ),
  });
}

/** An HTTP client whose connections are judged by the address they really go to, so that no DNS answer leads inside. */
export function guardedAgent(reach: Reach): Agent {
  const refusal = (address: string): Error | undefined => {
    const kind = addressKind(address);
    const allowed = kind === 'public' || (kind === 'loopback' ? reach.loopback : reach.privateNetwork);
    return allowed ? undefined : reach.refusal();
  };
  const guardedLookup: LookupFunction = (hostname, options, callback) => {
    const all: LookupOptions & { all: true } = { ...options, all: true };
    lookup(hostname, all, (error, addresses: LookupAddress[]) => {
      const first = addresses?.[0];
      const refused = error ?? addresses.map(({ address }) => refusal(address)).find((found) => found !== undefined);
      if (refused || first === undefined) return callback(refused ?? new Error(`no address for ${hostname}`), '', 0);
      if (options.all === true) return callback(null, addresses);
      return callback(null, first.address, first.family);
    });
  };
  // Idle time is watched above, over head and body alike.
  const agent = new Agent({
    connect: { lookup: guardedLookup, timeout: 10_000 },
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 10_000,
  });
  return agent.compose((dispatch) => (options, handler) => {
    // A literal address is never looked up, so it is judged here.
    const host = options.origin === undefined ? '' : new URL(options.origin).hostname.replace(/^\[|\]$/g, '');
    const refused = isIP(host) === 0 ? undefined : refusal(host);
    if (refused !== undefined) throw refused;
    return dispatch(options, handler);
  }) as Agent;
}
