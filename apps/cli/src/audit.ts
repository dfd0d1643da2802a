import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

interface Act {
  occurredAt: string;
  actor: string;
  action: string;
  target: string;
  detail: unknown;
}

/** `codedock audit`. */
export function auditCommand(): Command {
  return new Command('audit')
    .description('What administrators have done, newest first.')
    .option('--limit <n>', 'how many', '50')
    .option('--action <action>', 'only this action, such as key.created')
    .option('--target <target>', 'only this target: a name or id')
    .option('--installation', 'acts of the installation itself')
    .action(
      async (
        options: { limit: string; action?: string; target?: string; installation?: boolean },
        command: Command,
      ) => {
        const query = new URLSearchParams({
          limit: options.limit,
          ...(options.action === undefined ? {} : { action: options.action }),
          ...(options.target === undefined ? {} : { target: options.target }),
          ...(options.installation === true ? { of: 'installation' } : {}),
        });
        const answer = await apiClient(command).call<{ items: Act[] }>('GET', `/v1/audit?${query}`);
        print(command, answer, () =>
          table(
            ['at', 'actor', 'action', 'target', 'detail'],
            answer.items.map(({ occurredAt, actor, action, target, detail }) => [
              occurredAt,
              actor,
              action,
              target,
              JSON.stringify(detail),
            ]),
          ),
        );
      },
    );
}
