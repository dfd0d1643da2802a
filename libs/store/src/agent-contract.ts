import type { AgentProfile } from '@codedock/domain';
import type { IdempotencyCompletion } from './idempotency-contract.js';

/** A profile with where it comes from. */
export interface StoredAgent {
  readonly profile: AgentProfile;
  /** `installation`: from the profiles file, or built in; it is changed there. */
  readonly source: 'tenant' | 'installation';
  /** Raised with every change of the tenant's own profile. */
  readonly version: number;
  readonly updatedAt: string;
}

/** Which version is meant; absent: whichever there is. */
interface Which {
  readonly tenantId: string;
  readonly name: string;
  readonly version?: number;
  readonly actor: string;
}

/** A tenant's own profiles; they lie over the installation's of the same name. Changes are audited; runs keep what they froze. */
export interface AgentEditing {
  /** The tenant's own, else the installation's. */
  describe(tenantId: string, name: string): Promise<StoredAgent | undefined>;
  /** All that the tenant may use, by name. */
  describeAll(tenantId: string): Promise<StoredAgent[]>;
  /** Throws conflict when the tenant has one of that name, or `maxAgents` of its own. */
  create(
    input: { tenantId: string; profile: AgentProfile; maxAgents: number; actor: string },
    idempotency?: IdempotencyCompletion,
  ): Promise<StoredAgent>;
  /** Throws not_found, conflict (another version, or the installation's profile). */
  replace(which: Which & { readonly profile: AgentProfile }): Promise<StoredAgent>;
  /** Throws not_found, conflict (another version, or the installation's profile). */
  remove(which: Which): Promise<void>;
}

export interface AgentStore extends AgentEditing {
  /** A tenant's own profiles and the installation's, by name. */
  list(tenantId: string): Promise<AgentProfile[]>;
  /** The tenant's own, else the installation's; undefined when there is none. */
  get(tenantId: string, name: string): Promise<AgentProfile | undefined>;
  /** Makes the installation's profiles equal to a file's. */
  upsertFromFile(profiles: readonly AgentProfile[]): Promise<void>;
}
