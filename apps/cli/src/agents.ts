import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { type ApiClient, apiClient } from './api-client.js';
import { parsedJson } from './json-option.js';
import { print, table } from './output.js';

interface Agent {
  name: string;
  description?: string;
  model: { provider: string; name: string };
  source: string;
  version: number;
  updatedAt: string;
}

/** `codedock agents list|show|create|replace|delete`. */
export function agentsCommand(): Command {
  const agents = new Command('agents').description(
    "Agent profiles: the installation's, and the tenant's own over them.",
  );

  agents
    .command('list')
    .description('all profiles that runs may name')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<{ items: Agent[] }>('GET', '/v1/agents');
      print(command, answer, () =>
        table(
          ['agent', 'from', 'version', 'model', 'description'],
          answer.items.map(({ name, source, version, model, description }) => [
            name,
            source,
            version,
            `${model.provider}/${model.name}`,
            description,
          ]),
        ),
      );
    });

  agents
    .command('show')
    .description('a profile as JSON, as `replace` takes it back')
    .argument('<agent>', 'name of the profile')
    .action(async (name: string, _options: unknown, command: Command) => {
      const agent = await described(apiClient(command), name);
      const { source: _source, version: _version, updatedAt: _updatedAt, ...profile } = agent;
      print(command, agent, () => JSON.stringify(profile, undefined, 2));
    });

  agents
    .command('create')
    .description("make a profile of the tenant's own from a JSON file")
    .argument('<file>', 'the profile; - reads stdin')
    .action(async (file: string, _options: unknown, command: Command) => {
      const made = await apiClient(command).call<Agent>('POST', '/v1/agents', profileIn(file));
      print(command, made, () => `agent ${made.name} is made, version ${made.version}`);
    });

  agents
    .command('replace')
    .description("replace one of the tenant's own profiles; fails when somebody else was faster")
    .argument('<agent>', 'name of the profile')
    .argument('<file>', 'the profile; - reads stdin')
    .option('--if-version <n>', 'the version you have read; without it the present one')
    .action(async (name: string, file: string, options: { ifVersion?: string }, command: Command) => {
      const api = apiClient(command);
      const match = await ifMatch(api, name, options.ifVersion);
      const made = await api.call<Agent>('PUT', pathOf(name), profileIn(file), match);
      print(command, made, () => `agent ${name} is replaced, version ${made.version}`);
    });

  agents
    .command('delete')
    .description("delete one of the tenant's own profiles")
    .argument('<agent>', 'name of the profile')
    .option('--if-version <n>', 'the version you have read; without it the present one')
    .action(async (name: string, options: { ifVersion?: string }, command: Command) => {
      const api = apiClient(command);
      await api.call<unknown>('DELETE', pathOf(name), undefined, await ifMatch(api, name, options.ifVersion));
      print(command, { name, status: 'deleted' }, () => `agent ${name} is deleted`);
    });

  return agents;
}

function described(api: ApiClient, name: string): Promise<Agent> {
  return api.call<Agent>('GET', pathOf(name));
}

async function ifMatch(api: ApiClient, name: string, version: string | undefined): Promise<Record<string, string>> {
  return { 'if-match': `"${version ?? (await described(api, name)).version}"` };
}

function pathOf(name: string): string {
  return `/v1/agents/${encodeURIComponent(name)}`;
}

function profileIn(file: string): unknown {
  return parsedJson('The file', readFileSync(file === '-' ? 0 : file, 'utf8'));
}
