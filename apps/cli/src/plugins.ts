import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';
import { addPluginValues } from './plugin-values.js';

interface Plugin {
  name: string;
  state: string;
  version?: string;
  generation?: number;
  ports?: string[];
  disabled?: boolean;
  reason?: string;
  delivery?: { waitingSessions: number; lagMs: number; error?: string };
}
interface Explanation {
  ports: {
    port: string;
    budgetMs?: number;
    failurePolicy?: string;
    subscribers: {
      plugin: string;
      version?: string;
      failurePolicy?: string;
      required?: boolean;
      ready?: boolean;
      shadow?: boolean;
    }[];
  }[];
  warnings?: string[];
}

interface Steered {
  replicas: { replica: string; done: boolean; state?: string; generation?: number; reason?: string }[];
}

/** `codedock plugins list|explain|disable|enable|stop|start|reload|settings|set|…`. */
export function pluginsCommand(): Command {
  const plugins = new Command('plugins').description('See and steer the plugins.');

  plugins
    .command('list')
    .description('every plugin with its state')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<{ items: Plugin[] }>('GET', '/v1/plugins');
      print(command, answer, () =>
        table(
          ['plugin', 'state', 'version', 'generation', 'ports', 'reason'],
          answer.items.map((plugin) => [
            plugin.name,
            plugin.state,
            plugin.version,
            plugin.generation,
            plugin.ports?.join(' '),
            [plugin.reason, behind(plugin)].filter((text) => text).join('; '),
          ]),
        ),
      );
    });

  plugins
    .command('explain')
    .description('the effective chain of every port, with policies and budgets')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<Explanation>('GET', '/v1/plugins/explain');
      print(command, answer, () =>
        [
          table(
            ['port', 'chain', 'failure policy', 'budget ms'],
            answer.ports.map((port) => [
              port.port,
              port.subscribers
                .map(({ plugin, version, ready, shadow }) =>
                  [
                    version === undefined ? plugin : `${plugin}@${version}`,
                    ...(shadow ? ['(shadow)'] : []),
                    ...(ready === false ? ['(not ready)'] : []),
                  ].join(' '),
                )
                .join(' → ') || '–',
              port.failurePolicy,
              port.budgetMs,
            ]),
          ),
          ...(answer.warnings ?? []).map((warning) => `warning: ${warning}`),
        ].join('\n'),
      );
    });

  for (const verb of ['disable', 'enable'] as const) {
    plugins
      .command(verb)
      .description(
        verb === 'disable'
          ? 'take a plugin out, on all replicas and across restarts'
          : 'let a disabled plugin in again',
      )
      .argument('<plugin>', 'plugin name')
      .action(async (name: string, _options: unknown, command: Command) => {
        const answer = await apiClient(command).call<unknown>(
          'POST',
          `/v1/plugins/${encodeURIComponent(name)}/${verb}`,
          {},
        );
        print(command, answer, () => `plugin ${name}: ${verb}d`);
      });
  }

  const acts = {
    stop: 'take a plugin out until it is started again or its host restarts',
    start: 'start a plugin that was stopped or has failed',
    reload: 'read a plugin anew and replace its process without failing a call, or take in a new one',
  } as const;
  for (const [verb, description] of Object.entries(acts)) {
    plugins
      .command(verb)
      .description(description)
      .argument('<plugin>', 'plugin name')
      .option('--reason <text>', 'for the audit')
      .action(async (name: string, { reason }: { reason?: string }, command: Command) => {
        const answer = await apiClient(command).call<Steered>(
          'POST',
          `/v1/plugins/${encodeURIComponent(name)}/${verb}`,
          reason === undefined ? {} : { reason },
        );
        print(command, answer, () =>
          table(
            ['plugin-host', verb, 'state', 'generation', 'reason'],
            answer.replicas.map(({ replica, done, state, generation, reason: why }) => [
              replica,
              done ? 'done' : 'failed',
              state,
              generation,
              why,
            ]),
          ),
        );
      });
  }
  addPluginValues(plugins);
  return plugins;
}

/** How far durable delivery is behind; empty when it is not. */
function behind({ delivery }: Plugin): string {
  if (delivery === undefined || delivery.lagMs === 0) return '';
  const { waitingSessions, lagMs, error } = delivery;
  const since = `events of ${waitingSessions} sessions wait, the oldest for ${Math.ceil(lagMs / 1_000)} s`;
  return error === undefined ? since : `${since}: ${error}`;
}
