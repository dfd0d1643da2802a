import { AppError } from '@codedock/domain';
import type { Caller } from './caller.js';

/** Which tenants may change what all tenants share: plugins, global values, encryption keys. */
export class Operators {
  /** Names of the tenants; undefined: all of them. */
  constructor(private readonly tenants: readonly string[] | undefined) {}

  includes({ tenantName }: Pick<Caller, 'tenantName'>): boolean {
    return this.tenants === undefined || (tenantName !== undefined && this.tenants.includes(tenantName));
  }

  /** @throws AppError `forbidden` for a caller of another tenant. */
  require(caller: Pick<Caller, 'tenantName'>): void {
    if (this.includes(caller)) return;
    throw new AppError(
      'forbidden',
      'This concerns the whole installation: it needs an admin key of a tenant that CODEDOCK_OPERATOR_TENANTS names.',
    );
  }
}
