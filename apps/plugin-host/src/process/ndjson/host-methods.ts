import { AppError, type JsonObject, type JsonValue } from '@codedock/domain';
import { isPort, plugin } from '@codedock/proto';
import { status } from '@grpc/grpc-js';
import { isServiceError, toServiceError } from '../../grpc/status.js';
import type { HostCalls } from '../../host-calls/host-calls.js';
import type { Members } from './frame.js';
import type { Registrations } from './registrations.js';

/** What a plugin with the capability `admin` may do to the plugins of this host. */
export interface PluginControl {
  /** Plugins in chain order, with their states. */
  list(): readonly { readonly name: string; readonly state: string; readonly version: string }[];
  isDisabled(name: string): boolean;
  isStopped(name: string): boolean;
  reload(name: string, by: string): Promise<void>;
  stop(name: string, by: string): Promise<void>;
  start(name: string, by: string): Promise<void>;
}

/** What the methods act on. */
export interface HostMethodsContext {
  readonly plugin: string;
  readonly calls: HostCalls;
  readonly registrations: Registrations;
  readonly control: PluginControl;
  /** Whether this process is started again when it ends by itself: never, or as plugin.json says. */
  setAutoRestart(enabled: boolean): void;
}

type Act = (params: Params, signal: AbortSignal) => JsonValue | Promise<JsonValue>;

const done: JsonObject = {};

/** Names of the methods that need the capability `admin`. */
const adminMethods: ReadonlySet<string> = new Set([
  'plugin.reloadOne',
  'plugin.isDisabled',
  'plugin.mgrStop',
  'plugin.mgrStart',
  'plugin.mgrIsRuntimeStopped',
]);

/** What a plugin may ask of the host, by method name. */
export class HostMethods {
  private readonly acts: ReadonlyMap<string, Act>;

  constructor(private readonly context: HostMethodsContext) {
    this.acts = new Map(Object.entries(actsOf(context)));
  }

  /** Names a plugin with these capabilities may call, for the handshake. */
  get names(): readonly string[] {
    return [...this.acts.keys()];
  }

  /** Does what was asked. Rejects with a message for the plugin. */
  async call(method: string, members: Members, signal: AbortSignal): Promise<JsonValue> {
    const act = this.acts.get(method);
    if (act === undefined)
      throw new AppError('not_supported', `the method ${JSON.stringify(method.slice(0, 100))} is not offered`);
    if (adminMethods.has(method) && !this.context.registrations.capabilities.includes('admin')) {
      const refusal = new AppError(
        'capability_refused',
        `${method} needs the capability "admin"; name it in "capabilities" of the handshake's answer`,
      );
      this.context.calls.refused(method, refusal);
      throw refusal;
    }
    return act(new Params(method, members), signal);
  }
}

/** The text a plugin gets for an error: a code of gRPC's, a colon, what is wrong. */
export function errorTextOf(error: unknown): string {
  const { code, details } = toServiceError(error);
  return `${status[code] ?? code}: ${details}`;
}

function actsOf({
  calls,
  registrations,
  control,
  plugin: self,
  setAutoRestart,
}: HostMethodsContext): Record<string, Act> {
  return {
    'tool.register': async (params) => {
      await calls.registerMethod(
        plugin.Method.fromPartial({
          name: params.text('name'),
          prompt: params.text('prompt', params.text('description', '')),
          parametersSchema: Buffer.from(params.raw('parameters_schema') ?? params.raw('parameters') ?? ''),
          capabilities: params.texts('capabilities', []),
          requiresApproval: params.flag('requires_approval', false),
          effectClass: params.text('effect_class', ''),
          timeoutMs: params.count('timeout_ms', 0),
        }),
      );
      return done;
    },
    'stage.register': (params) => {
      const stage = params.text('stage', params.text('name', ''));
      if (!isPort(stage))
        throw new AppError(
          'invalid_request',
          `stage.register: there is no port ${JSON.stringify(stage.slice(0, 100))}`,
        );
      registrations.addStage(stage, params.text('failure_policy', ''));
      return done;
    },
    'memory.get': async (params) => {
      const { text } = await calls.memoryGet({
        sessionId: params.text('session_id'),
        scope: params.text('scope', ''),
        name: params.text('name'),
      });
      return { text };
    },
    'memory.upsert': async (params) => {
      await calls.memoryUpsert({
        key: {
          sessionId: params.text('session_id'),
          scope: params.text('scope', ''),
          name: params.text('name'),
        },
        text: params.text('text'),
      });
      return done;
    },
    'llm.complete': async (params, signal) => {
      const { text } = await calls.complete(
        { ...params.address(), prompt: params.text('prompt', ''), text: params.text('text') },
        signal,
      );
      return { text };
    },
    'llm.listSources': async (params) => ({ models: (await calls.listModels(params.address())).models }),
    'io.appendNotice': async (params) => {
      await calls.appendNotice({ ...params.address(), text: params.text('text') });
      return done;
    },
    'settings.get': async (params) => {
      const key = params.text('key');
      try {
        const { value } = await calls.getSetting({ ...params.address(), key });
        return { value: JSON.parse(value.toString('utf8')) as JsonValue };
      } catch (error) {
        const fallback = registrations.settingDefault(key);
        if (fallback !== undefined && isServiceError(error) && error.code === status.NOT_FOUND)
          return { value: fallback };
        throw error;
      }
    },
    'settings.set': async (params) => {
      const value = Buffer.from(params.raw('value') ?? 'null');
      await calls.setSetting({ ...params.address(), key: params.text('key'), value });
      return done;
    },
    'settings.getSecret': async (params) => ({
      value: (await calls.getSecret({ ...params.address(), key: params.text('key') })).value,
    }),
    'settings.setSecret': async (params) => {
      await calls.setSecret({ ...params.address(), key: params.text('key'), value: params.text('value') });
      return done;
    },
    'settings.registerDef': (params) => {
      registrations.addSetting({
        key: params.text('key'),
        description: params.text('description', ''),
        ...(params.get('default') === undefined ? {} : { default: params.get('default') as JsonValue }),
      });
      return done;
    },
    'settings.defs': () => ({ defs: registrations.settings.map((definition) => ({ ...definition })) }),
    'settings.list': async (params) => {
      const { settings } = await calls.listSettings(params.address());
      return {
        settings: settings.map(({ key, value }) => ({ key, value: JSON.parse(value.toString('utf8')) as JsonValue })),
      };
    },
    'events.subscribe': (params) => {
      registrations.subscribe(params.texts('events', params.get('event') === undefined ? [] : [params.text('event')]));
      return done;
    },
    'events.unsubscribe': (params) => {
      registrations.unsubscribe(
        params.texts('events', params.get('event') === undefined ? [] : [params.text('event')]),
      );
      return done;
    },
    'lifecycle.autoRestart': (params) => {
      setAutoRestart(params.flag('enabled'));
      return done;
    },
    'plugin.listLoaded': () => ({ plugins: control.list().map((one) => ({ ...one })) }),
    'plugin.reloadOne': async (params) => {
      await control.reload(params.text('name'), self);
      return done;
    },
    'plugin.isDisabled': (params) => ({ disabled: control.isDisabled(params.text('name')) }),
    'plugin.mgrStop': async (params) => {
      await control.stop(params.text('name'), self);
      return done;
    },
    'plugin.mgrStart': async (params) => {
      await control.start(params.text('name'), self);
      return done;
    },
    'plugin.mgrIsRuntimeStopped': (params) => ({ stopped: control.isStopped(params.text('name')) }),
  };
}

/** Params of one call, read by name; what is missing or of a wrong type is refused by its name. */
class Params {
  constructor(
    private readonly method: string,
    private readonly members: Members,
  ) {}

  get(name: string): JsonValue | undefined {
    return this.members.get(name);
  }

  raw(name: string): string | undefined {
    return this.members.raw(name);
  }

  text(name: string, absent?: string): string {
    return this.read(name, absent, (value) => (typeof value === 'string' ? value : undefined), 'a text');
  }

  flag(name: string, absent?: boolean): boolean {
    return this.read(name, absent, (value) => (typeof value === 'boolean' ? value : undefined), 'true or false');
  }

  count(name: string, absent?: number): number {
    const whole = (value: JsonValue) =>
      typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value < 2 ** 32 ? value : undefined;
    return this.read(name, absent, whole, 'a whole number');
  }

  texts(name: string, absent?: string[]): string[] {
    const list = (value: JsonValue) =>
      Array.isArray(value) && value.every((one) => typeof one === 'string') ? (value as string[]) : undefined;
    return this.read(name, absent, list, 'a list of texts');
  }

  /** Whose session, and run where one is named. */
  address(): { sessionId: string; runId: string } {
    return { sessionId: this.text('session_id'), runId: this.text('run_id', '') };
  }

  private read<T>(name: string, absent: T | undefined, as: (value: JsonValue) => T | undefined, what: string): T {
    const value = this.members.get(name);
    if (value === undefined || value === null) {
      if (absent !== undefined) return absent;
      throw new AppError('invalid_request', `${this.method}: "${name}" is missing; it must be ${what}`);
    }
    const read = as(value);
    if (read === undefined) throw new AppError('invalid_request', `${this.method}: "${name}" must be ${what}`);
    return read;
  }
}
