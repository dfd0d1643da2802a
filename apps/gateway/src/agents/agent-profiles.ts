import { type AgentProfile, configFor, type RunConfig } from '@codedock/domain';
import type { Store } from '@codedock/store';
import { invalid } from '../http/validation.js';

/** Milliseconds for which a profile is used again without asking the store. */
const CACHE_MS = 5_000;
const MAX_CACHED = 10_000;

interface Cached {
  readonly profile: Promise<AgentProfile | undefined>;
  readonly until: number;
}

/** The agent profiles runs are made with. */
export class AgentProfiles {
  private readonly cached = new Map<string, Cached>();

  constructor(
    private readonly agents: Store['agents'],
    private readonly now: () => number,
  ) {}

  /**
   * The configuration a run freezes.
   * @throws AppError `invalid_request` naming `/agent` or `/mode` when there is no such profile or mode.
   */
  async configuration(tenantId: string, agent: string, mode: string | undefined): Promise<RunConfig> {
    const profile = await this.find(tenantId, agent);
    if (profile === undefined) throw invalid('body', [{ path: '/agent', message: `names no agent profile: ${agent}` }]);
    const config = configFor(profile, mode);
    if (config !== undefined) return config;
    const known = Object.keys(profile.modes).join(', ') || 'none';
    throw invalid('body', [{ path: '/mode', message: `names no mode of the agent ${agent}; it has: ${known}` }]);
  }

  /** A profile was changed here; other processes notice within the time of the cache. */
  forget(tenantId: string, name: string): void {
    this.cached.delete(`${tenantId} ${name}`);
  }

  private find(tenantId: string, name: string): Promise<AgentProfile | undefined> {
    const id = `${tenantId} ${name}`;
    const now = this.now();
    const known = this.cached.get(id);
    if (known !== undefined && known.until > now) return known.profile;
    if (this.cached.size >= MAX_CACHED) this.cached.clear();
    const profile = this.agents.get(tenantId, name);
    this.cached.set(id, { profile, until: now + CACHE_MS });
    profile.catch(() => this.cached.delete(id));
    return profile;
  }
}
