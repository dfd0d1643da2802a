import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { parsedJson } from './json-option.js';
import { print, table } from './output.js';

interface Approval {
  id: string;
  sessionId: string;
  runId: string;
  status: string;
  expiresAt: string;
  calls: {
    callId: string;
    tool: string;
    arguments: unknown;
    reasons: { by: string; reason: string }[];
    decision?: 'approve' | 'deny';
  }[];
}

interface DecideOptions {
  readonly call?: string;
  readonly approve?: boolean;
  readonly edit?: string;
  readonly scope?: string;
  /** True: without a reason. */
  readonly deny?: string | true;
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
          ['approval', 'call', 'run', 'tool', 'arguments', 'asked by', 'expires'],
          answer.items.flatMap((approval) =>
            approval.calls.map((call) => [
              approval.id,
              call.callId,
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
    .description('approve or deny what is open in an approval, or one call of it')
    .argument('<approval>', 'approval id')
    .option('--call <id>', 'decide this call only')
    .option('--approve', 'let the calls run')
    .option('--edit <json>', 'with --approve and one call: run it with these arguments instead')
    .option(
      '--scope <scope>',
      'with --approve: once, run or session; further calls of the tool need no approval of its own',
    )
    .option('--deny [reason]', 'refuse them; the model sees the reason')
    .action(async (id: string, options: DecideOptions, command: Command) => {
      const word = wordOf(options);
      const client = apiClient(command);
      const path = `/v1/approvals/${encodeURIComponent(id)}`;
      const chosen = chosenCalls(await client.call<Approval>('GET', path), options);
      const decisions = chosen.map((callId) => ({ callId, ...word }));
      const answer = await client.call<Approval>('POST', `${path}/decisions`, { decisions });
      const done = word.decision === 'approve' ? 'approved' : 'denied';
      print(command, answer, () => `approval ${answer.id}: ${answer.status}, ${decisions.length} ${done}`);
    });

  return approvals;
}

type Word =
  | { readonly decision: 'approve'; readonly scope?: string; readonly arguments?: unknown }
  | { readonly decision: 'deny'; readonly reason?: string };

/** What the options say of each call. @throws when they contradict each other. */
export function wordOf({ approve, edit, scope, deny }: DecideOptions): Word {
  if ((approve === true) === (deny !== undefined)) throw new Error('Say either --approve or --deny ["<reason>"].');
  if (deny !== undefined) {
    if (edit !== undefined || scope !== undefined) throw new Error('--edit and --scope go with --approve only.');
    return { decision: 'deny', ...(deny === true ? {} : { reason: deny }) };
  }
  return {
    decision: 'approve',
    ...(scope === undefined ? {} : { scope }),
    ...(edit === undefined ? {} : { arguments: parsedJson('--edit', edit) }),
  };
}

/** Ids of the calls to decide: the named one, else what is open, else (a repeated decision) all. */
export function chosenCalls(approval: Pick<Approval, 'calls'>, { call, edit }: DecideOptions): string[] {
  const open = approval.calls.filter(({ decision }) => decision === undefined);
  const all = (open.length === 0 ? approval.calls : open).map(({ callId }) => callId);
  const chosen = call === undefined ? all : [call];
  if (edit !== undefined && chosen.length !== 1) {
    throw new Error(`--edit is for one call, and ${chosen.length} are open; name it with --call <id>.`);
  }
  return chosen;
}
