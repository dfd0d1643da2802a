export interface Tenant {
  readonly id: string;
  readonly name: string;
  /** Absent = no cap. */
  readonly maxConcurrentRuns?: number;
  /** Requests that each gateway answers a second; absent = the installation's default. */
  readonly requestsPerSecond?: number;
}

export interface TenantStore {
  /** The tenant of that name, created when missing. */
  ensure(input: { id: string; name: string; maxConcurrentRuns?: number }): Promise<Tenant>;
  get(tenantId: string): Promise<Tenant>;
  findByName(name: string): Promise<Tenant | undefined>;
  list(): Promise<Tenant[]>;
  /** Changes what is named; null removes a limit. Throws not_found. */
  setLimits(
    tenantId: string,
    limits: { maxConcurrentRuns?: number | null; requestsPerSecond?: number | null },
  ): Promise<Tenant>;
}
