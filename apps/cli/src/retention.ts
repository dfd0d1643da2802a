import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

const KINDS = ['events', 'audit', 'messages'] as const;
type Retention = Record<(typeof KINDS)[number], { days: number | null; source: string }>;

/** `codedock retention show|set`. */
export function retentionCommand(): Command {
  const retention = new Command('retention').description("How long the tenant's data is kept.");

  retention
    .command('show')
    .description('after how many days events, audit and messages are deleted')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<Retention>('GET', '/v1/retention');
      print(command, answer, () => shown(answer));
    });

  const set = retention.command('set').description("change the tenant's own settings, those that are named");
  for (const kind of KINDS) set.option(`--${kind} <days>`, 'days, or "default" for what the installation says');
  set.action(async (options: Partial<Record<(typeof KINDS)[number], string>>, command: Command) => {
    const body = Object.fromEntries(
      KINDS.flatMap((kind) => (options[kind] === undefined ? [] : [[kind, daysOf(kind, options[kind])]])),
    );
    if (Object.keys(body).length === 0) throw new Error('Name what to change: --events, --audit or --messages.');
    const answer = await apiClient(command).call<Retention>('PUT', '/v1/retention', body);
    print(command, answer, () => shown(answer));
  });

  return retention;
}

function daysOf(option: string, text: string): number | null {
  if (text === 'default') return null;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new Error(`--${option} takes whole days from 1, or "default", not "${text}".`);
}

function shown(retention: Retention): string {
  return table(
    ['what', 'deleted after', 'says'],
    KINDS.map((kind) => {
      const { days, source } = retention[kind];
      return [kind, days === null ? 'never' : `${days} days`, source];
    }),
  );
}
