import { AppError, configFor, type Principal, type RunConfig, type Usage } from '@codedock/domain';
import type { Store } from '@codedock/store';
import { DEFAULT_AGENT } from '../agents/read-profiles.js';
import type { Authority } from './plugin-authority.js';

/** What a call-back is about: the run's frozen configuration, or where there is no run the profile asked for. */
export interface SessionWork {
  /** Absent where no run exists. */
  readonly runId?: string;
  readonly config: RunConfig;
  readonly principal: Principal;
  /** Of the run so far; absent where there is none. */
  readonly usage?: Usage;
  /** As `beforeRunStart` left it, else the configuration's. */
  readonly systemPrompt: string;
}

/**
 * The work a call-back belongs to: of the run it names or was made in; at an input of the profile asked for; outside of
 * any call of the session's newest run, else of the default profile. @throws AppError `not_found`.
 */
export async function sessionWork(
  store: Pick<Store, 'runs' | 'agents'>,
  { capability }: Authority,
): Promise<SessionWork> {
  const { tenant: tenantId, session: sessionId, run: runId, agent } = capability;
  const found =
    agent !== undefined && runId === undefined
      ? undefined
      : await store.runs.work({ tenantId, sessionId, ...(runId === undefined ? {} : { runId }) });
  if (found !== undefined) {
    return {
      runId: found.runId,
      config: found.config,
      principal: found.principal,
      usage: found.usage,
      systemPrompt: found.start?.systemPrompt ?? found.config.systemPrompt,
    };
  }
  if (runId !== undefined) throw new AppError('not_found', 'There is no such run in this session.');
  return profileWork(store, tenantId, agent ?? DEFAULT_AGENT, capability.mode);
}

async function profileWork(
  store: Pick<Store, 'agents'>,
  tenantId: string,
  agent: string,
  mode: string | undefined,
): Promise<SessionWork> {
  const profile = await store.agents.get(tenantId, agent);
  const config = profile === undefined ? undefined : configFor(profile, mode);
  if (config === undefined) throw new AppError('not_found', `There is no agent profile ${agent} with this mode.`);
  const principal = { tenant: tenantId, key: '', agent, metadata: {}, ...(mode === undefined ? {} : { mode }) };
  return { config, principal, systemPrompt: config.systemPrompt };
}
