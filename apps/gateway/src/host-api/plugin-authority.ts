import { AppError, type JsonObject } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import type { Capability, VerifiedCapability } from '@codedock/plugin-bridge';
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

const PLUGIN_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Decides what a plugin may call back for. Every refusal is a clear error and an audit row. */
export class PluginAuthority {
  constructor(
    private readonly verify: VerifyCapability | undefined,
    private readonly audit: Store['audit'],
    private readonly log: Logger,
    private readonly now: () => number,
  ) {}

  /** @throws AppError `capability_refused` without a capability, with one that is forged or expired, or for another session or run. */
  async require(caller: host.Caller | undefined, callBack: CallBack): Promise<Authority> {
    const plugin = caller?.plugin ?? '';
    const verified = this.verify?.(caller?.capability ?? new Uint8Array(), this.now());
    const reason = refusalOf(plugin, verified, callBack);
    if (reason === undefined && verified?.kind === 'valid') return { plugin, capability: verified.capability };
    const why = reason ?? 'no key to check capabilities is configured';
    await this.record(plugin, verified, callBack, why);
    throw new AppError('capability_refused', `${callBack.method} was refused: ${why}.`);
  }

  private async record(
    plugin: string,
    verified: VerifiedCapability | undefined,
    { method, sessionId, runId }: CallBack,
    reason: string,
  ): Promise<void> {
    const detail: JsonObject = { reason, sessionId: sessionId.slice(0, 100), runId: runId.slice(0, 100) };
    const tenant = verified?.kind === 'valid' ? { tenantId: verified.capability.tenant } : {};
    const actor = `plugin ${plugin.slice(0, 63)}`;
    try {
      await this.audit.admin({ ...tenant, actor, action: 'host_call_refused', target: method, detail });
    } catch (error) {
      this.log.error({ err: error, plugin, method, reason }, 'a refused call-back of a plugin could not be audited');
    }
  }
}

function refusalOf(
  plugin: string,
  verified: VerifiedCapability | undefined,
  { sessionId, runId }: CallBack,
): string | undefined {
  if (!PLUGIN_NAME.test(plugin)) return 'the caller names no plugin';
  if (verified === undefined) return 'no key to check capabilities is configured';
  if (verified.kind === 'refused')
    return `the capability is ${verified.reason === 'wrong signature' ? 'not signed by this installation' : verified.reason}`;
  const { session, run } = verified.capability;
  if (session !== sessionId) return 'the capability is for another session';
  if (runId !== '' && run !== runId) return 'the capability is for another run';
  return undefined;
}
