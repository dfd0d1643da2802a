import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

interface SecretKeys {
  keyId: string | null;
  accepted: string[];
  items: { kind: string; keyId: string | null; count: number; readable: boolean }[];
}
interface Reencrypted {
  keyId: string;
  pluginSecrets: number;
  webhooks: number;
  unreadable: number;
}

/** `codedock secrets status|reencrypt`. */
export function secretsCommand(): Command {
  const secrets = new Command('secrets').description(
    'Encryption keys of the secrets at rest; no secret is ever shown.',
  );

  secrets
    .command('status')
    .description('how many secrets are under which key')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<SecretKeys>('GET', '/v1/secrets');
      print(command, answer, () =>
        [
          `key that encrypts: ${answer.keyId ?? 'none; CODEDOCK_SECRETS_KEY is not set'}`,
          `further keys that open: ${answer.accepted.join(', ') || 'none'}`,
          table(
            ['secrets of', 'key', 'count', 'readable'],
            answer.items.map(({ kind, keyId, count, readable }) => [
              kind,
              keyId ?? 'not encrypted',
              count,
              readable ? 'yes' : 'no',
            ]),
          ),
        ].join('\n'),
      );
    });

  secrets
    .command('reencrypt')
    .description('put every secret under the key that encrypts now; may be repeated')
    .action(async (_options: unknown, command: Command) => {
      const done = await apiClient(command).call<Reencrypted>('POST', '/v1/secrets/reencrypt', {});
      print(
        command,
        done,
        () =>
          `${done.pluginSecrets} secrets of plugins and ${done.webhooks} of webhooks are under the key ${done.keyId} now; ${done.unreadable} could not be read and stay as they are`,
      );
    });

  return secrets;
}
