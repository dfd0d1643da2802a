import { timingSafeEqual } from 'node:crypto';
import { type Metadata, status } from '@grpc/grpc-js';

/** How a caller without the internal token is refused. */
export const INTERNAL_CALLER_REFUSAL = {
  code: status.UNAUTHENTICATED,
  message: 'the internal token is missing or wrong; give all services the same CODEDOCK_INTERNAL_TOKEN',
} as const;

/** Knows the product's own services by the bearer token they show. */
export class InternalCallers {
  private readonly expected: Buffer | undefined;

  /** Without a token everyone is admitted: mutual TLS has done the checking. */
  constructor(token: string | undefined) {
    this.expected = token === undefined ? undefined : Buffer.from(`Bearer ${token}`);
  }

  admits(metadata: Metadata): boolean {
    if (this.expected === undefined) return true;
    const [shown] = metadata.get('authorization');
    return typeof shown === 'string' && isEqual(Buffer.from(shown), this.expected);
  }
}

/** Takes the same time wherever the texts differ; only the length of the token can be learnt. */
function isEqual(shown: Buffer, expected: Buffer): boolean {
  return shown.length === expected.length && timingSafeEqual(shown, expected);
}
