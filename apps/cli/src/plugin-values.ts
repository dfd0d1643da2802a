import type { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

interface ValueView {
  key: string;
  scope: string;
  value?: unknown;
  updatedBy: string;
  updatedAt: string;
}
interface Which {
  readonly global?: boolean;
}

/** Bytes of stdin taken as a secret. */
const MAX_INPUT = 64 * 1024;
const GLOBAL = ['--global', 'for all tenants that have no value of their own'] as const;

/** Adds `settings`, `set`, `unset`, `secrets`, `set-secret` and `unset-secret` to `codedock plugins`. */
export function addPluginValues(plugins: Command): void {
  const both = { settings: "a plugin's settings", secrets: "the names of a plugin's secrets; secrets are never shown" };
  for (const [kind, description] of Object.entries(both)) {
    plugins
      .command(kind)
      .description(description)
      .argument('<plugin>', 'plugin name')
      .action(async (name: string, _options: unknown, command: Command) => {
        const answer = await apiClient(command).call<{ items: ValueView[] }>('GET', pathOf(name, kind));
        print(command, answer, () =>
          table(
            ['key', 'scope', ...(kind === 'settings' ? ['value'] : []), 'set by', 'at'],
            answer.items.map(({ key, scope, value, updatedBy, updatedAt }) => [
              key,
              scope,
              ...(kind === 'settings' ? [JSON.stringify(value)] : []),
              updatedBy,
              updatedAt,
            ]),
          ),
        );
      });
  }

  plugins
    .command('set')
    .description("set a plugin's setting")
    .argument('<plugin>', 'plugin name')
    .argument('<key>', 'name of the setting')
    .argument('<value>', 'JSON, or a text that is none')
    .option(...GLOBAL)
    .action(async (name: string, key: string, value: string, which: Which, command: Command) => {
      const body = { value: settingValue(value), scope: scopeOf(which) };
      const answer = await apiClient(command).call<unknown>('PUT', pathOf(name, 'settings', key), body);
      print(command, answer, () => `plugin ${name}: ${key} is set`);
    });

  plugins
    .command('set-secret')
    .description("set a plugin's secret, read from stdin, so that it shows up in no process list and no history")
    .argument('<plugin>', 'plugin name')
    .argument('<key>', 'name of the secret')
    .option(...GLOBAL)
    .action(async (name: string, key: string, which: Which, command: Command) => {
      const body = { value: await secretFrom(process.stdin), scope: scopeOf(which) };
      const answer = await apiClient(command).call<unknown>('PUT', pathOf(name, 'secrets', key), body);
      print(command, answer, () => `plugin ${name}: the secret ${key} is set`);
    });

  for (const [verb, kind] of [
    ['unset', 'settings'],
    ['unset-secret', 'secrets'],
  ] as const) {
    plugins
      .command(verb)
      .description(`remove ${kind === 'settings' ? "a plugin's setting" : "a plugin's secret"}`)
      .argument('<plugin>', 'plugin name')
      .argument('<key>', 'its name')
      .option(...GLOBAL)
      .action(async (name: string, key: string, which: Which, command: Command) => {
        await apiClient(command).call<unknown>('DELETE', `${pathOf(name, kind, key)}?scope=${scopeOf(which)}`);
        print(command, { plugin: name, key, scope: scopeOf(which) }, () => `plugin ${name}: ${key} is gone`);
      });
  }
}

/** JSON where it is JSON, else the text itself. */
export function settingValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** The whole input without the line end that `echo` and editors add. @throws for an empty or too long one. */
export async function secretFrom(input: AsyncIterable<Buffer | string>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > MAX_INPUT) throw new Error(`The secret on stdin is longer than ${MAX_INPUT} bytes.`);
    chunks.push(bytes);
  }
  const text = Buffer.concat(chunks)
    .toString('utf8')
    .replace(/\r?\n$/, '');
  if (text === '') throw new Error('There is no secret on stdin; pipe it in, e.g. from a file or a password manager.');
  return text;
}

function pathOf(name: string, kind: string, key?: string): string {
  const path = `/v1/plugins/${encodeURIComponent(name)}/${kind}`;
  return key === undefined ? path : `${path}/${encodeURIComponent(key)}`;
}

function scopeOf({ global = false }: Which): 'global' | 'tenant' {
  return global ? 'global' : 'tenant';
}
