import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { print, table } from './output.js';

interface Approval {
  id: string;
  sessionId: string;
  runId: string;
  status: string;
  expiresAt: string;
  calls: { callId: string; tool: string; arguments: unknown; reasons: { by: string; reason: string }[] }[];
}

/** `codedock approvals list|decide`. */
export function approvalsCommand(): Command {
  const approvals = new Command('approvals').description('See what waits for a person, and decide it.');

  approvals
    .command('list')
    .description('tool calls that wait for a decision, across sessions')
    .option('--status <status>', 'open, decided, expired or void', 'open')
    .action(async (options: { status: string }, command: Command) => {
      const answer = await apiClient(command).call<{ items: Approval[] }>(
        'GET',
        `/v1/approvals?status=${encodeURIComponent(options.status)}`,
      );
      print(command, answer, () =>
        table(
          ['approval', 'run', 'tool', 'arguments', 'asked by', 'expires'],
          answer.items.flatMap((approval) =>
            approval.calls.map((call) => [
              approval.id,
              approval.runId,
              call.tool,
              JSON.stringify(call.arguments),
              call.reasons.map(({ by, reason }) => `${by}: ${reason}`).join('; '),
              approval.expiresAt,
            ]),
          ),
        ),
      );
    });

  approvals
    .command('decide')
    .description('approve or deny all calls of an approval, or one of them')
    .argument('<approval>', 'approval id')
    .option('--approve', 'let the calls run')
    .option('--deny <reason>', 'refuse them; the model sees the reason')
    .action(async (id: string, options: { approve?: boolean; deny?: string }, command: Command) => {
      if ((options.approve === true) === (options.deny !== undefined))
        throw new Error('Say either --approve or --deny "<reason>".');
      const client = apiClient(command);
      const approval = await client.call<Approval>('GET', `/v1/approvals/${encodeURIComponent(id)}`);
      const decisions = approval.calls.map(({ callId }) =>
        options.deny === undefined
          ? { callId, decision: 'approve' }
          : { callId, decision: 'deny', reason: options.deny },
      );
      const answer = await client.call<Approval>('POST', `/v1/approvals/${encodeURIComponent(id)}/decisions`, {
        decisions,
      });
      print(
        command,
        answer,
        () =>
          `approval ${answer.id}: ${answer.status}, ${decisions.length} ${options.deny === undefined ? 'approved' : 'denied'}`,
      );
    });

  return approvals;
}
