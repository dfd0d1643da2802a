import { host } from '@codedock/proto';
import { status } from '@grpc/grpc-js';
import { failure } from '../grpc/status.js';
import type { HostApi } from '../host-calls/host-api-client.js';

/** What a plugin asked of its host, as far as it had an effect. */
export interface HostApiEffects {
  readonly notices: readonly string[];
  /** Refusals, crashes and the like, as they would stand in the audit. */
  readonly records: readonly host.PluginRecord[];
}

/** A gateway's host API that keeps everything in memory; a completion answers with the text it was given. */
export function memoryHostApi(): HostApi & HostApiEffects {
  const notices: string[] = [];
  const records: host.PluginRecord[] = [];
  const memory = new Map<string, string>();
  const settings = new Map<string, Buffer>();
  const secrets = new Map<string, string>();
  let activeTools: readonly string[] = [];
  const missing = (what: string) => failure(status.NOT_FOUND, `there is no ${what}`);
  const found = <T>(value: T | undefined, what: string): T => {
    if (value === undefined) throw missing(what);
    return value;
  };
  const memoryKey = (key: host.MemoryGetRequest['key']) => {
    const { sessionId = '', scope = '', name = '' } = key ?? {};
    const ofSession = scope === '' || scope === 'session';
    return JSON.stringify([ofSession ? 'session' : scope, ofSession ? sessionId : '', name]);
  };
  return {
    notices,
    records,
    getDesired: async () => ({ chainEpoch: 0, disabled: [] }),
    memoryGet: async ({ key }) => ({ text: found(memory.get(memoryKey(key)), `memory "${key?.name ?? ''}"`) }),
    memoryUpsert: async ({ entry }) => {
      memory.set(memoryKey(entry?.key), entry?.text ?? '');
      return {};
    },
    appendNotice: async ({ notice }) => {
      notices.push(notice?.text ?? '');
      return {};
    },
    complete: async ({ request }) => ({ text: request?.text ?? '' }),
    getActiveTools: async () => ({ names: [...activeTools] }),
    setActiveTools: async ({ names }) => {
      activeTools = names;
      return {};
    },
    getSystemPrompt: async () => ({ text: '' }),
    getSetting: async ({ key }) => ({ value: found(settings.get(key), `setting "${key}"`) }),
    setSetting: async ({ key, value }) => {
      settings.set(key, value);
      return {};
    },
    listSettings: async () => ({ settings: [...settings].map(([key, value]) => ({ key, value })) }),
    getSecret: async ({ key }) => ({ value: found(secrets.get(key), `secret "${key}"`) }),
    setSecret: async ({ key, value }) => {
      secrets.set(key, value);
      return {};
    },
    listModels: async () => ({ models: ['fake'] }),
    takeEvents: async () => host.EventBatch.create(),
    settleEvents: async () => ({ held: false }),
    recordPluginEvent: async (record) => {
      records.push(record);
      return {};
    },
  };
}
