import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { AppError } from '@codedock/domain';

/** One address of the list, as configured. */
export type HostAddress =
  | { readonly kind: 'unix'; readonly target: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number };

/** One replica: a grpc target that is a single address, and the name its certificate has to bear. */
export interface ReplicaAddress {
  readonly target: string;
  readonly serverName: string | undefined;
}

/** Reads `host:port`, `[v6]:port`, `unix:/path`, each with an optional `grpc://`. @throws AppError `config_invalid` */
export function parseAddress(text: string): HostAddress {
  if (text.startsWith('unix:')) return { kind: 'unix', target: text };
  const found = /^(?:[a-z+]+:\/\/)?(?:\[([0-9a-fA-F:.]+)\]|([^:/[\]]+)):(\d{1,5})\/?$/.exec(text.trim());
  const host = found?.[1] ?? found?.[2];
  const port = Number(found?.[3]);
  if (host === undefined || port < 1 || port > 65_535) {
    throw new AppError('config_invalid', `PLUGIN_HOST_URL: ${JSON.stringify(text)} is no host:port.`);
  }
  return { kind: 'tcp', host, port };
}

/** Asks the system's resolver, /etc/hosts included. */
export async function resolveHost(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true, verbatim: true });
  return found.map(({ address }) => address);
}

/** The replicas behind one address. Rejects when the name cannot be resolved. */
export async function replicasOf(
  address: HostAddress,
  resolve: (host: string) => Promise<readonly string[]>,
): Promise<readonly ReplicaAddress[]> {
  if (address.kind === 'unix') return [{ target: address.target, serverName: 'localhost' }];
  const { host, port } = address;
  const ips = isIP(host) === 0 ? await resolve(host) : [host];
  const serverName = isIP(host) === 0 ? host : undefined;
  return ips.map((ip) => ({ target: isIP(ip) === 6 ? `ipv6:[${ip}]:${port}` : `ipv4:${ip}:${port}`, serverName }));
}
