import { AppError, isAppError, wellFormedText } from '@codedock/domain';
import type { Empty, host, plugin } from '@codedock/proto';
import { publishEvents } from '@codedock/runs';
import type { Metadata, ServerUnaryCall } from '@grpc/grpc-js';
import { Controller, Inject, UseGuards } from '@nestjs/common';
import { GrpcMethod } from '@nestjs/microservices';
import { ids } from '../ids.js';
import { PluginValues, type ValueChange } from '../plugin-values/plugin-values.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts } from '../tokens.js';
import { activeTools, setActiveTools } from './active-tools.js';
import { type CompletionParts, complete } from './completions.js';
import { InternalCallerGuard } from './internal-caller.guard.js';
import { type Authority, type CallBack, PluginAuthority } from './plugin-authority.js';
import { PluginEvents } from './plugin-events.js';
import { memoryOwner, requireName, requireText } from './plugin-memory.js';
import { rpcError } from './rpc-status.js';
import { sessionWork } from './session-work.js';

const SERVICE = 'HostApi';

/** What a plugin-host may tell about its plugins. */
const KINDS: ReadonlySet<string> = new Set([
  'started',
  'ready',
  'crashed',
  'failed',
  'stopped',
  'shadow',
  'host_call_refused',
]);
const MAX_MESSAGE = 1_024;

/** Failures that are no refusal: what is not there, and what could not be asked. */
const NO_REFUSAL: ReadonlySet<string> = new Set(['not_found', 'store_unavailable', 'shutting_down']);

/** Injection token of the {@link CompletionParts}. */
export const COMPLETIONS = Symbol('CompletionParts');

/** The internal API of the plugin-hosts: desired state, and what plugins call back for. Answered after the commit. */
@Controller()
@UseGuards(InternalCallerGuard)
export class HostApiController {
  constructor(
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
    @Inject(COMPLETIONS) private readonly completions: CompletionParts,
    private readonly values: PluginValues,
    private readonly authority: PluginAuthority,
    private readonly events: PluginEvents,
  ) {}

  @GrpcMethod(SERVICE, 'GetDesired')
  getDesired(): Promise<host.Desired> {
    return answered(async () => {
      const { epoch, disabled } = await this.ports.store.plugins.desired();
      return { chainEpoch: epoch, disabled: [...disabled] };
    });
  }

  @GrpcMethod(SERVICE, 'MemoryGet')
  memoryGet({ caller, key }: host.MemoryGetRequest): Promise<plugin.MemoryValue> {
    const { sessionId = '', scope = '', name = '' } = key ?? {};
    return this.call('MemoryGet', { caller, sessionId, runId: '' }, async (authority) => {
      const owner = await memoryOwner(this.ports.store, authority, scope);
      const entry = await this.ports.store.memory.get(owner, requireName(name));
      if (entry === undefined) throw new AppError('not_found', 'There is no memory with this name.');
      return { text: entry.text };
    });
  }

  @GrpcMethod(SERVICE, 'MemoryUpsert')
  memoryUpsert({ caller, entry }: host.MemoryUpsertRequest): Promise<Empty> {
    const { sessionId = '', scope = '', name = '' } = entry?.key ?? {};
    return this.call('MemoryUpsert', { caller, sessionId, runId: '' }, async (authority) => {
      const owner = await memoryOwner(this.ports.store, authority, scope);
      await this.ports.store.memory.upsert(owner, requireName(name), wellFormedText(requireText(entry?.text ?? '')));
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'AppendNotice')
  appendNotice({ caller, notice }: host.AppendNoticeRequest): Promise<Empty> {
    const { sessionId = '', runId = '', text = '' } = notice ?? {};
    return this.call('AppendNotice', { caller, sessionId, runId }, async ({ plugin, capability }) => {
      if (text === '') throw new AppError('invalid_request', 'A notice needs a text.');
      const { events } = await this.ports.store.notices.append({
        tenantId: capability.tenant,
        sessionId,
        plugin,
        text: wellFormedText(requireText(text)),
        messageId: ids.next(),
        eventId: ids.next(),
        ...(capability.run === undefined ? {} : { runId: capability.run }),
      });
      publishEvents(this.ports.bus, events);
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'Complete')
  complete(
    { caller, request, timeoutMs }: host.CompletionRequest,
    _: Metadata,
    call: ServerUnaryCall<host.CompletionRequest, plugin.CompleteResult>,
  ): Promise<plugin.CompleteResult> {
    const { sessionId = '', runId = '', prompt = '', text = '' } = request ?? {};
    const given = new AbortController();
    call.on('cancelled', () => given.abort());
    return this.call('Complete', { caller, sessionId, runId }, async (authority) => ({
      text: await complete(this.completions, authority, { prompt, text }, { timeoutMs, signal: given.signal }),
    }));
  }

  @GrpcMethod(SERVICE, 'GetActiveTools')
  getActiveTools(request: host.SessionRequest): Promise<plugin.ActiveTools> {
    return this.call('GetActiveTools', request, async (authority) => ({
      names: await activeTools(this.ports.store, this.hosts, authority),
    }));
  }

  @GrpcMethod(SERVICE, 'SetActiveTools')
  setActiveTools({ session, names }: host.ActiveToolsChange): Promise<Empty> {
    return this.call('SetActiveTools', session, async (authority) => {
      await setActiveTools(this.ports.store, this.hosts, authority, names);
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'GetSystemPrompt')
  getSystemPrompt(request: host.SessionRequest): Promise<plugin.SystemPrompt> {
    return this.call('GetSystemPrompt', request, async (authority) => ({
      text: (await sessionWork(this.ports.store, authority)).systemPrompt,
    }));
  }

  @GrpcMethod(SERVICE, 'GetSetting')
  getSetting({ session, key }: host.KeyRequest): Promise<plugin.SettingValue> {
    return this.call('GetSetting', session, async ({ plugin, capability }) => {
      const value = await this.values.setting({ tenantId: capability.tenant, plugin, key });
      return { value: Buffer.from(JSON.stringify(value)) };
    });
  }

  @GrpcMethod(SERVICE, 'SetSetting')
  setSetting({ session, key, value }: host.SettingChange): Promise<Empty> {
    return this.call('SetSetting', session, async (authority) => {
      await this.values.setSettingText(changeBy(authority, key), value);
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'ListSettings')
  listSettings(request: host.SessionRequest): Promise<host.SettingList> {
    return this.call('ListSettings', request, async ({ plugin, capability }) => {
      const settings = await this.values.effectiveSettings(capability.tenant, plugin);
      return { settings: settings.map(({ key, value }) => ({ key, value: Buffer.from(JSON.stringify(value)) })) };
    });
  }

  @GrpcMethod(SERVICE, 'GetSecret')
  getSecret({ session, key }: host.KeyRequest): Promise<plugin.SecretValue> {
    return this.call('GetSecret', session, async ({ plugin, capability }) => ({
      value: await this.values.secret({ tenantId: capability.tenant, plugin, key }),
    }));
  }

  @GrpcMethod(SERVICE, 'SetSecret')
  setSecret({ session, key, value }: host.SecretChange): Promise<Empty> {
    return this.call('SetSecret', session, async (authority) => {
      await this.values.setSecret(changeBy(authority, key), value);
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'ListModels')
  listModels(request: host.SessionRequest): Promise<plugin.Models> {
    return this.call('ListModels', request, async (authority) => {
      const { config } = await sessionWork(this.ports.store, authority);
      const profile = await this.ports.store.agents.get(authority.capability.tenant, config.name);
      const others = Object.values(profile?.modes ?? {}).flatMap(({ model }) => (model === undefined ? [] : [model]));
      return { models: [...new Set([config.model, ...others].map(({ name }) => name))] };
    });
  }

  @GrpcMethod(SERVICE, 'RecordPluginEvent')
  recordPluginEvent({ caller, instanceId, kind, message, sessionId, runId }: host.PluginRecord): Promise<Empty> {
    return answered(async () => {
      if (!KINDS.has(kind)) throw new AppError('invalid_request', 'The kind of a plugin record is not known.');
      await this.ports.store.audit.admin({
        actor: `plugin-host ${shortened(instanceId, 100)}`,
        action: `plugin.${kind}`,
        target: shortened(caller?.plugin ?? '', 63),
        detail: {
          message: shortened(message, MAX_MESSAGE),
          sessionId: shortened(sessionId, 100),
          runId: shortened(runId, 100),
        },
      });
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'TakeEvents')
  takeEvents(request: host.TakeEventsRequest): Promise<host.EventBatch> {
    return answered(() => this.events.take(request));
  }

  @GrpcMethod(SERVICE, 'SettleEvents')
  settleEvents(request: host.SettleEventsRequest): Promise<host.EventsSettled> {
    return answered(() => this.events.settle(request));
  }

  /** A call-back with its authority checked; whatever refuses it is in the audit. */
  private call<T>(
    method: string,
    about: Partial<host.SessionRequest> | undefined,
    act: (authority: Authority) => Promise<T>,
  ): Promise<T> {
    return answered(async () => {
      const callBack: CallBack = { method, sessionId: about?.sessionId ?? '', runId: about?.runId ?? '' };
      const authority = await this.authority.require(about?.caller, callBack);
      try {
        return await act(authority);
      } catch (error) {
        if (isAppError(error) && !NO_REFUSAL.has(error.code)) {
          const { plugin, capability } = authority;
          await this.authority.recordRefusal(
            plugin,
            capability.tenant,
            callBack,
            shortened(error.message, MAX_MESSAGE),
          );
        }
        throw error;
      }
    });
  }
}

function changeBy({ plugin, capability }: Authority, key: string): ValueChange {
  return { tenantId: capability.tenant, plugin, key, actor: `plugin ${plugin}`, scope: 'tenant' };
}

function shortened(text: string, length: number): string {
  return wellFormedText(text.slice(0, length));
}

async function answered<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw rpcError(error);
  }
}
