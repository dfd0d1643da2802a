import type { Identity } from '../serve/identity.js';

/** A certificate and key such as a host makes for AutoMTLS. For tests of hosts and of the SDK. */
export async function createHostIdentity(): Promise<Identity> {
  const { createIdentity } = await import('../serve/identity.js');
  return createIdentity();
}

export type { Identity as HostIdentity };
