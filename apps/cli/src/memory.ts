import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

interface Whose {
  session?: string;
  user?: string;
}
interface Entry {
  name: string;
  text: string;
  updatedAt: string;
}

/** `codedock memory list|get|set|delete`: of a session, a user or, without either, the tenant. */
export function memoryCommand(): Command {
  const memory = new Command('memory').description('What agents remember of a session, a user or the tenant.');
  const withOwner = (name: string, description: string) =>
    memory
      .command(name)
      .description(description)
      .option('--session <id>', 'of this session')
      .option('--user <name>', 'of this end user; without --session and --user of the tenant');

  withOwner('list', 'entries by name')
    .option('--query <text>', 'only those whose name or text contains it')
    .option('--limit <n>', 'how many', '50')
    .action(async ({ query, limit, ...whose }: Whose & { query?: string; limit: string }, command: Command) => {
      const search = new URLSearchParams({ ...ownerOf(whose), limit, ...(query === undefined ? {} : { query }) });
      const answer = await apiClient(command).call<{
        items: { name: string; characters: number; updatedAt: string }[];
      }>('GET', `/v1/memory?${search}`);
      print(command, answer, () =>
        table(
          ['name', 'characters', 'changed'],
          answer.items.map(({ name, characters, updatedAt }) => [name, characters, updatedAt]),
        ),
      );
    });

  withOwner('get', 'the text of an entry')
    .argument('<name>', 'name of the entry')
    .action(async (name: string, whose: Whose, command: Command) => {
      const entry = await apiClient(command).call<Entry>('GET', pathOf(name, whose));
      print(command, entry, () => entry.text);
    });

  withOwner('set', 'set an entry')
    .argument('<name>', 'name of the entry')
    .argument('<text>', 'its text; - reads stdin')
    .action(async (name: string, text: string, whose: Whose, command: Command) => {
      const entry = await apiClient(command).call<Entry>('PUT', `/v1/memory/${encodeURIComponent(name)}`, {
        ...ownerOf(whose),
        text: text === '-' ? readFileSync(0, 'utf8') : text,
      });
      print(command, entry, () => `${name} is set`);
    });

  withOwner('delete', 'delete an entry')
    .argument('<name>', 'name of the entry')
    .action(async (name: string, whose: Whose, command: Command) => {
      await apiClient(command).call<unknown>('DELETE', pathOf(name, whose));
      print(command, { name, status: 'deleted' }, () => `${name} is deleted`);
    });

  return memory;
}

function pathOf(name: string, whose: Whose): string {
  return `/v1/memory/${encodeURIComponent(name)}?${new URLSearchParams(ownerOf(whose))}`;
}

function ownerOf({ session, user }: Whose): Record<string, string> {
  if (session !== undefined && user !== undefined) throw new Error('Give either --session or --user.');
  if (session !== undefined) return { scope: 'session', owner: session };
  return user === undefined ? { scope: 'tenant' } : { scope: 'user', owner: user };
}
