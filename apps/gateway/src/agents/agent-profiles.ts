import { type AgentProfile, configFor, type RunConfig } from '@codedock/domain';
import type { Store } from '@codedock/store';
import { invalid } from '../http/validation.js';
import { RememberedAnswers } from '../remembered-answers.js';

/** Milliseconds for which a profile is used again without asking the store. */
const CACHE_MS = 5_000;

/** The agent profiles runs are made with. */
export class AgentProfiles {
  private readonly cached: RememberedAnswers<AgentProfile | undefined>;

  constructor(
    private readonly agents: Store['agents'],
    now: () => number,
  ) {
    this.cached = new RememberedAnswers({ keepMs: CACHE_MS, now });
  }

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
    this.cached.forget(`${tenantId} ${name}`);
  }

  private find(tenantId: string, name: string): Promise<AgentProfile | undefined> {
    return this.cached.of(`${tenantId} ${name}`, () => this.agents.get(tenantId, name));
  }
}
