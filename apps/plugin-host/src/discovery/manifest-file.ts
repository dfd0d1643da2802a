import { AppError, type JsonObject } from '@codedock/domain';
import type { Port } from '@codedock/proto';
import secureJson from 'secure-json-parse';
import type { z } from 'zod';
import { pluginJson } from './plugin-json-schema.js';

/** What may not be exceeded; absent = no limit. Sizes in MiB and bytes. */
export interface PluginLimits {
  readonly memoryMb?: number;
  readonly processes?: number;
  readonly openFiles?: number;
  readonly logBytesPerSecond: number;
}

/** When a plugin that ended by itself is started again. Times in milliseconds. */
export interface RestartSettings {
  readonly policy: 'on-failure' | 'never' | 'always';
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
}

/** What plugin.json says, defaults filled in. `budgetMs` and `failurePolicy` are per port; times in milliseconds. */
export interface PluginSettings {
  readonly transport: 'grpc' | 'stdio';
  readonly command?: readonly string[];
  /** Of the program, or by file of the folder. */
  readonly sha256?: string | Readonly<Record<string, string>>;
  readonly autoMtls: boolean;
  /** Never true in shadow mode. */
  readonly required: boolean;
  readonly mode: 'enforce' | 'shadow';
  /** JSON of `match`; empty = asked for everything. */
  readonly matchJson: string;
  readonly failurePolicy: Readonly<Partial<Record<Port, 'open' | 'closed'>>>;
  readonly timeoutMs?: number;
  readonly budgetMs: Readonly<Partial<Record<Port, number>>>;
  readonly reinvoke: 'never' | 'ifChanged';
  /** How it is given ledger events: told of them while it is there, or each at least once. */
  readonly delivery: 'best-effort' | 'durable';
  readonly maxInflight: number;
  readonly maxToolCalls: number;
  readonly restart: RestartSettings;
  readonly limits: PluginLimits;
  readonly env: readonly string[];
  readonly config: JsonObject;
}

/** Settings of a plugin without plugin.json. */
export const defaultSettings: PluginSettings = parseSettings('{}');

/**
 * Reads the text of a plugin.json.
 * @throws AppError `plugin_refused` naming the field that is wrong; the caller adds which file it was.
 */
export function parseSettings(text: string): PluginSettings {
  let content: unknown;
  try {
    content = secureJson.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new AppError('plugin_refused', `it is not valid JSON (${(error as Error).message}); correct the file`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new AppError('plugin_refused', 'it must hold one JSON object');
  }
  const parsed = pluginJson.safeParse(content);
  if (!parsed.success) {
    throw new AppError('plugin_refused', parsed.error.issues.map(describeIssue).join('; '));
  }
  return settingsOf(parsed.data);
}

function settingsOf({ $schema: _, match, required, ...said }: z.infer<typeof pluginJson>) {
  const { command, sha256, timeoutMs, ...rest } = said;
  if (rest.restart.backoffMs > rest.restart.maxBackoffMs) {
    throw new AppError(
      'plugin_refused',
      '"restart.backoffMs" is larger than "restart.maxBackoffMs"; swap or drop them',
    );
  }
  return Object.freeze({
    ...rest,
    required: required && rest.mode === 'enforce',
    matchJson: match === undefined || Object.keys(match).length === 0 ? '' : JSON.stringify(match),
    failurePolicy: present(rest.failurePolicy),
    budgetMs: present(rest.budgetMs),
    limits: present(rest.limits) as PluginLimits,
    config: rest.config as JsonObject,
    ...(command === undefined ? {} : { command }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
}

function present<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as ReturnType<
    typeof present<T>
  >;
}

/** Whether a file that is otherwise refused says clearly that nobody has to wait for this plugin. */
export function saysNotRequired(text: string): boolean {
  const content: unknown = secureJson.safeParse(text);
  if (typeof content !== 'object' || content === null) return false;
  return ('required' in content && content.required === false) || ('mode' in content && content.mode === 'shadow');
}

function describeIssue(issue: z.core.$ZodIssue): string {
  const where = issue.path.join('.');
  if (issue.code === 'unrecognized_keys') {
    const inside = where === '' ? '' : ` in "${where}"`;
    return `unknown field ${issue.keys.map((key) => `"${key}"`).join(', ')}${inside}; remove it or correct its name`;
  }
  return `"${where}": ${issue.message}`;
}
