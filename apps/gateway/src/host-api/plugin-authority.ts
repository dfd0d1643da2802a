import { AppError, isPluginName, type JsonObject } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { type Capability, compileMatch, type VerifiedCapability } from '@codedock/plugin-bridge';
import type { host } from '@codedock/proto';
import type { Store } from '@codedock/store';

/** Checks signature and expiry of a capability at a point in time. */
export type VerifyCapability = (bytes: Uint8Array, now: number) => VerifiedCapability;

/** What a call-back is about. */
export interface CallBack {
  readonly method: string;
  readonly sessionId: string;
  /** Empty: the call-back names no run. */
  readonly runId: string;
}

/** What a call-back may act on. */
export interface Authority {
  readonly plugin: string;
  readonly capability: Capability;
}

/** Milliseconds for which a call-back outside of any call may act. */
const BACKGROUND_MS = 60_000;

type Decision =
  | { readonly kind: 'granted'; readonly capability: Capability }
  | { readonly kind: 'refused'; readonly reason: string; readonly tenantId?: string };

/** Decides what a plugin may call back for. Every refusal is a clear error and an audit row. */
export class PluginAuthority {
  constructor(
    private readonly verify: VerifyCapability | undefined,
    private readonly store: Pick<Store, 'audit' | 'sessions'>,
    private readonly log: Logger,
    private readonly now: () => number,
  ) {}

  /**
   * @throws AppError `capability_refused` without a capability, with one that is forged or expired, for another session
   * or run, or outside of a call for a tenant that is not the plugin's.
   */
  async require(caller: host.Caller | undefined, callBack: CallBack): Promise<Authority> {
    const plugin = caller?.plugin ?? '';
    const decision = await this.decide(caller, callBack);
    if (decision.kind === 'granted') return { plugin, capability: decision.capability };
    await this.recordRefusal(plugin, decision.tenantId, callBack, decision.reason);
    throw new AppError('capability_refused', `${callBack.method} was refused: ${decision.reason}.`);
  }

  /** Puts a refusal into the audit. A database that cannot be written is reported in the log. */
  async recordRefusal(
    plugin: string,
    tenantId: string | undefined,
    { method, sessionId, runId }: CallBack,
    reason: string,
  ): Promise<void> {
    const detail: JsonObject = { reason, sessionId: sessionId.slice(0, 100), runId: runId.slice(0, 100) };
    const tenant = tenantId === undefined ? {} : { tenantId };
    const actor = `plugin ${plugin.slice(0, 63)}`;
    try {
      await this.store.audit.admin({ ...tenant, actor, action: 'host_call_refused', target: method, detail });
    } catch (error) {
      this.log.error({ err: error, plugin, method, reason }, 'a refused call-back of a plugin could not be audited');
    }
  }

  private async decide(caller: host.Caller | undefined, callBack: CallBack): Promise<Decision> {
    if (caller === undefined || !isPluginName(caller.plugin)) return refused('the caller names no plugin');
    if (this.verify === undefined) return refused('no key to check capabilities is configured');
    if (caller.background && caller.capability.length === 0) return this.inBackground(caller, callBack);
    const verified = this.verify(caller.capability, this.now());
    if (verified.kind === 'refused') {
      return refused(
        `the capability is ${verified.reason === 'wrong signature' ? 'not signed by this installation' : verified.reason}`,
      );
    }
    const { capability } = verified;
    const { session, run, tenant } = capability;
    if (session !== callBack.sessionId) return refused('the capability is for another session', tenant);
    if (callBack.runId !== '' && run !== callBack.runId) return refused('the capability is for another run', tenant);
    return { kind: 'granted', capability };
  }

  /** No call is open: the plugin's manifest asks for `background`, which the plugin-host vouches for. */
  private async inBackground(caller: host.Caller, { sessionId, runId }: CallBack): Promise<Decision> {
    const tenant = await this.store.sessions.tenantOf(sessionId);
    if (tenant === undefined) return refused('there is no such session');
    const matches = caller.tenants.length === 0 ? undefined : compileMatch(JSON.stringify({ tenants: caller.tenants }));
    if (matches?.({ tenant, agent: '', mode: '' }) === false)
      return refused('the session belongs to a tenant this plugin is not for', tenant);
    const run = runId === '' ? {} : { run: runId };
    return {
      kind: 'granted',
      capability: { tenant, session: sessionId, ...run, subject: 'background', expiresAt: this.now() + BACKGROUND_MS },
    };
  }
}

function refused(reason: string, tenantId?: string): Decision {
  return { kind: 'refused', reason, ...(tenantId === undefined ? {} : { tenantId }) };
}
