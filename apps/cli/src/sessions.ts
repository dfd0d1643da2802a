import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print } from './output.js';

/** `codedock sessions delete`. */
export function sessionsCommand(): Command {
  const sessions = new Command('sessions').description('Delete sessions with everything in them.');

  sessions
    .command('delete')
    .description('delete a session with its messages, runs, events and memory; cannot be undone')
    .argument('<session>', 'session id')
    .option('--cancel', 'cancel its runs that are not over; without it they are a reason to refuse')
    .action(async (id: string, { cancel = false }: { cancel?: boolean }, command: Command) => {
      const answer = await apiClient(command).call<{ status: string } | undefined>(
        'DELETE',
        `/v1/sessions/${encodeURIComponent(id)}?cancel=${cancel}`,
      );
      print(command, answer ?? { id, status: 'deleted' }, () =>
        answer === undefined
          ? `session ${id} is deleted`
          : `session ${id} is gone; its many rows are still being deleted in the background`,
      );
    });

  return sessions;
}
