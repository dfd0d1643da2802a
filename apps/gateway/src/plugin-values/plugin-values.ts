import { AppError, isWellFormed, type JsonValue, wellFormedJson } from '@codedock/domain';
import { InvalidAnswer, readJson } from '@codedock/plugin-bridge';
import type { PluginValueView, Store, ValueScope } from '@codedock/store';
import type { SecretCipher } from '../secrets/secret-cipher.js';

const KEY = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** Bytes of the JSON text of a setting. */
const MAX_SETTING_BYTES = 64 * 1024;
/** UTF-16 code units of a secret. */
const MAX_SECRET_LENGTH = 16 * 1024;

/** Who changes what. */
export interface ValueChange {
  readonly tenantId: string;
  readonly plugin: string;
  readonly key: string;
  readonly actor: string;
  readonly scope: ValueScope;
}

type Place = Pick<ValueChange, 'tenantId' | 'plugin' | 'key'>;

/** Settings and secrets of plugins, for plugins and administrators alike. */
export class PluginValues {
  constructor(
    private readonly values: Store['pluginValues'],
    private readonly cipher: SecretCipher | undefined,
  ) {}

  /** The tenant's own value, else the global one. @throws AppError `not_found`. */
  async setting(place: Place): Promise<JsonValue> {
    const found = await this.values.setting({ ...place, key: requireKey(place.key) });
    if (found === undefined) throw new AppError('not_found', `There is no setting ${place.key}.`);
    return found.value;
  }

  /** @throws AppError `invalid_request` for a key that is none, `too_large` over 64 KiB. */
  async setSetting({ scope, ...change }: ValueChange, value: JsonValue): Promise<void> {
    requireKey(change.key);
    const stored = wellFormedJson(value);
    if (Buffer.byteLength(JSON.stringify(stored)) > MAX_SETTING_BYTES)
      throw new AppError('too_large', `A setting has at most ${MAX_SETTING_BYTES} bytes.`);
    await this.values.setSetting({ ...change, global: scope === 'global', value: stored });
  }

  /** As a plugin sends it. @throws AppError `invalid_request` for what is no JSON. */
  async setSettingText(change: ValueChange, json: Buffer): Promise<void> {
    if (json.length > MAX_SETTING_BYTES)
      throw new AppError('too_large', `A setting has at most ${MAX_SETTING_BYTES} bytes.`);
    await this.setSetting(change, parsed(json));
  }

  settings(tenantId: string, plugin: string): Promise<readonly (PluginValueView & { readonly value: JsonValue })[]> {
    return this.values.settings({ tenantId, plugin });
  }

  /** What a plugin sees: one value a key. */
  async effectiveSettings(tenantId: string, plugin: string): Promise<{ key: string; value: JsonValue }[]> {
    const byKey = new Map<string, JsonValue>();
    for (const { key, value } of await this.settings(tenantId, plugin)) if (!byKey.has(key)) byKey.set(key, value);
    return [...byKey].map(([key, value]) => ({ key, value }));
  }

  /** @throws AppError `not_found`. */
  async removeSetting({ scope, ...change }: ValueChange): Promise<void> {
    const removed = await this.values.removeSetting({
      ...change,
      key: requireKey(change.key),
      global: scope === 'global',
    });
    if (!removed) throw new AppError('not_found', `There is no ${scope} setting ${change.key}.`);
  }

  /** The tenant's own secret, else the global one. @throws AppError `not_found`, `config_invalid` for a missing or wrong key. */
  async secret(place: Place): Promise<string> {
    const { plugin, key } = place;
    const sealed = await this.values.secret({ ...place, key: requireKey(key) });
    if (sealed === undefined) throw new AppError('not_found', `There is no secret ${key}.`);
    return this.requireCipher().open(sealed, { owner: sealed.owner, plugin, key });
  }

  /** @throws AppError `invalid_request`, `too_large`, `config_invalid` without a key. */
  async setSecret({ scope, ...change }: ValueChange, text: string): Promise<void> {
    const { tenantId, plugin } = change;
    const key = requireKey(change.key);
    if (text === '' || !isWellFormed(text))
      throw new AppError('invalid_request', 'A secret has at least one character, and all are well-formed.');
    if (text.length > MAX_SECRET_LENGTH)
      throw new AppError('too_large', `A secret has at most ${MAX_SECRET_LENGTH} characters.`);
    const global = scope === 'global';
    const owner = global ? this.values.globalOwner : tenantId;
    const sealed = this.requireCipher().seal(text, { owner, plugin, key });
    await this.values.setSecret({ ...change, global, sealed });
  }

  secrets(tenantId: string, plugin: string): Promise<readonly PluginValueView[]> {
    return this.values.secrets({ tenantId, plugin });
  }

  /** @throws AppError `not_found`. */
  async removeSecret({ scope, ...change }: ValueChange): Promise<void> {
    const removed = await this.values.removeSecret({
      ...change,
      key: requireKey(change.key),
      global: scope === 'global',
    });
    if (!removed) throw new AppError('not_found', `There is no ${scope} secret ${change.key}.`);
  }

  private requireCipher(): SecretCipher {
    if (this.cipher !== undefined) return this.cipher;
    throw new AppError(
      'config_invalid',
      'Secrets cannot be used: CODEDOCK_SECRETS_KEY is not set for the gateway; give it 32 bytes, e.g. from openssl rand -hex 32.',
    );
  }
}

function requireKey(key: string): string {
  if (KEY.test(key)) return key;
  throw new AppError(
    'invalid_request',
    'A key has 1 to 128 letters, digits, ".", "_" or "-", and begins with none of the last three.',
  );
}

function parsed(json: Buffer): JsonValue {
  try {
    return readJson(json, 'value').value;
  } catch (error) {
    if (error instanceof InvalidAnswer)
      throw new AppError('invalid_request', `The setting is invalid: ${error.message}.`);
    throw error;
  }
}
