import { AppError } from '@codedock/domain';
import { ATTRIBUTES, isTraced, type Logger, withSpan } from '@codedock/platform';
import type { host, plugin } from '@codedock/proto';
import { isServiceError } from '../grpc/status.js';
import type { CallsInFlight } from './calls-in-flight.js';
import type { Emitter } from './emitter.js';
import type { HostApi } from './host-api-client.js';
import type { ToolRegistry } from './tool-registry.js';

/** The plugin process that calls back, and what its call-backs act on. */
export interface HostCallsContext {
  readonly plugin: string;
  /** It only watches: call-backs with an effect are refused. */
  readonly shadow: boolean;
  readonly calls: CallsInFlight;
  readonly tools: ToolRegistry;
  readonly emitter: Emitter;
  readonly api: HostApi;
  readonly log: Logger;
  /** What its manifest asks to be allowed; nothing before it is up. */
  capabilities(): readonly string[];
  /** Tenants its plugin.json's `match` names, as globs; empty = all. */
  readonly tenants: readonly string[];
  /** Called after the plugin's tools have changed. */
  onToolsChanged(): void;
}

/** Whose session, and run where one is named, a call-back is about. */
export interface Addressed {
  readonly sessionId: string;
  readonly runId: string;
}

/**
 * What one plugin process may call back for, whatever transport it uses. Nothing resolves before its effect is certain;
 * what the plugin has no authority for rejects, here or at the gateway, and is recorded. Rejects with `AppError` or the
 * gateway's `ServiceError`. The signal gives a call up.
 */
export interface HostCalls {
  emit(event: plugin.Envelope): Promise<object>;
  registerMethod(method: plugin.Method): Promise<object>;
  memoryGet(key: plugin.MemoryKey): Promise<plugin.MemoryValue>;
  memoryUpsert(entry: plugin.MemoryEntry): Promise<object>;
  complete(request: plugin.CompleteRequest, signal?: AbortSignal): Promise<plugin.CompleteResult>;
  appendNotice(notice: plugin.Notice): Promise<object>;
  getActiveTools(request: Addressed): Promise<plugin.ActiveTools>;
  setActiveTools(request: plugin.SetActiveToolsRequest): Promise<object>;
  getSystemPrompt(request: Addressed): Promise<plugin.SystemPrompt>;
  getSetting(request: plugin.SettingKey): Promise<plugin.SettingValue>;
  setSetting(request: plugin.SettingEntry): Promise<object>;
  listSettings(request: Addressed): Promise<host.SettingList>;
  getSecret(request: plugin.SecretKey): Promise<plugin.SecretValue>;
  setSecret(request: plugin.SecretEntry): Promise<object>;
  listModels(request: Addressed): Promise<plugin.Models>;
  /** Puts a refusal of something that is none of these into log and audit. */
  refused(method: string, error: unknown): void;
}

/** Milliseconds a completion may take at most. */
const longestCompletionMs = 30_000;
/** Part of its call that a plugin keeps to answer after a completion was cut, at least and at most so many milliseconds. */
const answerReserve = { share: 0.1, leastMs: 100, mostMs: 500 };

const noCapability = Buffer.alloc(0);

/** The call-backs of one plugin process. */
export function hostCalls(context: HostCallsContext): HostCalls {
  const { api, calls } = context;
  const caller = (method: string, about: Addressed): host.Caller => {
    const authority = calls.authorityFor(about.sessionId, about.runId);
    if (authority !== undefined) {
      return { plugin: context.plugin, capability: authority.capability, background: false, tenants: [] };
    }
    if (context.capabilities().includes('background')) {
      return { plugin: context.plugin, capability: noCapability, background: true, tenants: [...context.tenants] };
    }
    const session = `session ${about.sessionId || '(none named)'}`;
    throw new AppError(
      'capability_refused',
      `${method}: no call to this plugin is open for ${about.runId === '' ? session : `run ${about.runId} of ${session}`}; call back while a gate or tool of that session is being answered, or ask for the capability "background"`,
    );
  };
  const addressed = (method: string, { sessionId, runId }: Addressed): host.SessionRequest => ({
    caller: caller(method, { sessionId, runId }),
    sessionId,
    runId,
  });
  const effective = (method: string) => {
    if (context.shadow)
      throw new AppError(
        'capability_refused',
        `${method}: a plugin in shadow mode has no effects; see "mode" in its plugin.json`,
      );
  };
  /** A call-back by its name in the protocol; what it rejects with is logged, and recorded where the gateway has not. */
  const recorded =
    <Rest extends readonly unknown[], Request extends object, Reply>(
      method: string,
      act: (request: Request, ...rest: Rest) => Reply | Promise<Reply>,
    ) =>
    async (request: Request, ...rest: Rest): Promise<Reply> => {
      try {
        return await traced(context, method, request, async () => act(request, ...rest));
      } catch (error) {
        record(context, method, request, error);
        throw error;
      }
    };

  return {
    emit: recorded('Emit', (event) => {
      effective('Emit');
      const about = calls.authorityFor(event.sessionId, event.runId);
      context.emitter.emit(event, calls.emitDepth(), about?.principal);
      return {};
    }),
    registerMethod: recorded('RegisterMethod', (method) => {
      context.tools.register(method);
      context.onToolsChanged();
      return {};
    }),
    memoryGet: recorded('MemoryGet', (key) =>
      api.memoryGet({ caller: caller('MemoryGet', { sessionId: key.sessionId, runId: '' }), key }),
    ),
    memoryUpsert: recorded('MemoryUpsert', (entry) => {
      effective('MemoryUpsert');
      return api.memoryUpsert({
        caller: caller('MemoryUpsert', { sessionId: entry.key?.sessionId ?? '', runId: '' }),
        entry,
      });
    }),
    complete: recorded('Complete', (request, signal?: AbortSignal) => {
      effective('Complete');
      const who = caller('Complete', request);
      const endsAt = calls.authorityFor(request.sessionId, request.runId)?.endsAt;
      return api.complete({ caller: who, request, timeoutMs: completionMs(endsAt) }, signal);
    }),
    appendNotice: recorded('AppendNotice', (notice) => {
      effective('AppendNotice');
      return api.appendNotice({ caller: caller('AppendNotice', notice), notice });
    }),
    getActiveTools: recorded('GetActiveTools', (request) => api.getActiveTools(addressed('GetActiveTools', request))),
    setActiveTools: recorded('SetActiveTools', (request) => {
      effective('SetActiveTools');
      return api.setActiveTools({ session: addressed('SetActiveTools', request), names: request.names });
    }),
    getSystemPrompt: recorded('GetSystemPrompt', (request) =>
      api.getSystemPrompt(addressed('GetSystemPrompt', request)),
    ),
    getSetting: recorded('GetSetting', (request) =>
      api.getSetting({ session: addressed('GetSetting', request), key: request.key }),
    ),
    setSetting: recorded('SetSetting', (request) => {
      effective('SetSetting');
      return api.setSetting({ session: addressed('SetSetting', request), key: request.key, value: request.value });
    }),
    listSettings: recorded('ListSettings', (request) => api.listSettings(addressed('ListSettings', request))),
    getSecret: recorded('GetSecret', (request) =>
      api.getSecret({ session: addressed('GetSecret', request), key: request.key }),
    ),
    setSecret: recorded('SetSecret', (request) => {
      effective('SetSecret');
      return api.setSecret({ session: addressed('SetSecret', request), key: request.key, value: request.value });
    }),
    listModels: recorded('ListModels', (request) => api.listModels(addressed('ListModels', request))),
    refused: (method, error) => record(context, method, {}, error),
  };
}

/** Where neither the plugin nor the call it answers is traced, there is no span: nothing would say what it belongs to. */
function traced<T>({ plugin: name, calls }: HostCallsContext, method: string, request: object, act: () => Promise<T>) {
  const known = isTraced() ? undefined : calls.authorityFor(...addressOf(request))?.trace;
  if (known?.traceparent === undefined && !isTraced()) return act();
  const attributes = { [ATTRIBUTES.plugin]: name };
  return withSpan(`host call ${method}`, { attributes, ...(known === undefined ? {} : { parent: known }) }, act);
}

/** Session and run of a request, wherever its message has them. */
function addressOf(request: object): [sessionId: string, runId: string] {
  const text = (value: unknown) => (typeof value === 'string' ? value : '');
  const { sessionId, runId, key, entry } = request as Record<string, unknown>;
  if (sessionId !== undefined) return [text(sessionId), text(runId)];
  if (typeof key === 'object' && key !== null) return addressOf(key);
  return typeof entry === 'object' && entry !== null ? addressOf(entry) : ['', ''];
}

function completionMs(endsAt: number | undefined): number {
  if (endsAt === undefined) return longestCompletionMs;
  const { share, leastMs, mostMs } = answerReserve;
  const left = endsAt - performance.now();
  const usable = left - Math.min(Math.max(left * share, leastMs), mostMs);
  return Math.max(1, Math.floor(Math.min(usable, longestCompletionMs)));
}

/** What the plugin-host refuses itself is told to the gateway for its audit; the gateway records its own refusals. */
function record(context: HostCallsContext, method: string, request: object, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  context.log.warn({ method, reason: message }, 'a call-back of a plugin was refused or failed');
  if (isServiceError(error)) return;
  const field = (name: string) => (name in request ? String(Reflect.get(request, name)) : '');
  context.api
    .recordPluginEvent({
      caller: { plugin: context.plugin, capability: noCapability, background: false, tenants: [] },
      instanceId: '',
      kind: 'host_call_refused',
      message: message.slice(0, 1024),
      sessionId: field('sessionId'),
      runId: field('runId'),
    })
    .catch((failed: Error) =>
      context.log.warn({ err: failed, method }, 'a refusal is not in the audit: the gateway did not take it'),
    );
}
