import type { Host, MemoryScope, SessionAddress, Tool } from '../host/host.js';
import type { JsonValue } from '../json.js';

/** A host that keeps everything in memory and shows what a plugin asked of it. */
export interface RecordingHost extends Host {
  readonly registered: readonly Tool[];
  readonly notices: ReadonlyArray<{ readonly sessionId: string; readonly text: string }>;
  readonly emitted: ReadonlyArray<{ readonly event: string; readonly payload: JsonValue }>;
  readonly completions: ReadonlyArray<{ readonly prompt: string; readonly text: string }>;
}

/** What the host answers with. */
export interface RecordingHostOptions {
  /** Answer to `complete`; default `completed: <text>`. */
  readonly complete?: (request: { readonly prompt: string; readonly text: string }) => string;
  readonly systemPrompt?: string;
  readonly models?: readonly string[];
  readonly tools?: readonly string[];
}

/** Makes such a host. User and tenant memory are shared by all its sessions. */
export function recordingHost(options: RecordingHostOptions = {}): RecordingHost {
  const registered: Tool[] = [];
  const notices: { sessionId: string; text: string }[] = [];
  const emitted: { event: string; payload: JsonValue }[] = [];
  const completions: { prompt: string; text: string }[] = [];
  const memory = new Map<string, string>();
  const settings = new Map<string, JsonValue>();
  const secrets = new Map<string, string>();
  let active = options.tools ?? [];
  const memoryKey = (of: SessionAddress, name: string, scope: MemoryScope = 'session') =>
    JSON.stringify([scope, scope === 'session' ? of.sessionId : '', name]);
  return {
    registered,
    notices,
    emitted,
    completions,
    async registerTool(tool) {
      registered.push(tool);
    },
    async emit(_of, event, payload = {}) {
      emitted.push({ event, payload });
    },
    async appendNotice(of, text) {
      notices.push({ sessionId: of.sessionId, text });
    },
    async complete(_of, request) {
      completions.push(request);
      return options.complete?.(request) ?? `completed: ${request.text}`;
    },
    memory: {
      get: async (of, name, scope) => memory.get(memoryKey(of, name, scope)),
      upsert: async (of, name, text, scope) => {
        memory.set(memoryKey(of, name, scope), text);
      },
    },
    tools: {
      active: async () => active,
      setActive: async (_of, names) => {
        active = [...names];
      },
    },
    settings: {
      get: async (_of, key) => settings.get(key),
      set: async (_of, key, value) => {
        settings.set(key, value);
      },
    },
    secrets: {
      get: async (_of, key) => secrets.get(key),
      set: async (_of, key, value) => {
        secrets.set(key, value);
      },
    },
    systemPrompt: async () => options.systemPrompt ?? '',
    models: async () => options.models ?? [],
  };
}
