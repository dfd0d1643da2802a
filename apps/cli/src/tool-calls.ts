import { Command, Option } from 'commander';
import { apiClient } from './api-client.js';
import { parsedJson } from './json-option.js';
import { print, table } from './output.js';

interface ToolCall {
  id: string;
  sessionId: string;
  runId: string;
  createdAt: string;
  name: string;
  state: string;
  settledBy?: string;
  arguments: unknown;
}

/** `codedock tool-calls list|show|resolve`. */
export function toolCallsCommand(): Command {
  const calls = new Command('tool-calls').description('See tool calls, and say what became of one nobody knows of.');

  calls
    .command('list')
    .description('calls whose outcome nobody knows, across sessions, newest first')
    .action(async (_options: unknown, command: Command) => {
      const answer = await apiClient(command).call<{ items: ToolCall[] }>('GET', '/v1/tool-calls?state=unknown');
      print(command, answer, () =>
        table(
          ['call', 'session', 'run', 'tool', 'asked for', 'arguments'],
          answer.items.map((call) => [
            call.id,
            call.sessionId,
            call.runId,
            call.name,
            call.createdAt,
            JSON.stringify(call.arguments),
          ]),
        ),
      );
    });

  calls
    .command('show')
    .description('what was asked for and what became of it')
    .argument('<call>', 'tool call id')
    .action(async (id: string, _options: unknown, command: Command) => {
      const call = await apiClient(command).call<ToolCall>('GET', `/v1/tool-calls/${encodeURIComponent(id)}`);
      print(command, call, () => shown(call));
    });

  calls
    .command('resolve')
    .description('say what became of a call whose outcome is unknown')
    .argument('<call>', 'tool call id')
    .addOption(
      new Option('--outcome <what>', 'it happened, it did not, or try it again under the same key')
        .choices(['happened', 'did_not', 'retry'])
        .makeOptionMandatory(),
    )
    .option('--output <json>', 'with happened: what the call gave')
    .option('--note <text>', 'told to the model and kept in the audit')
    .action(async (id: string, options: { outcome: string; output?: string; note?: string }, command: Command) => {
      const { outcome, output, note } = options;
      const call = await apiClient(command).call<ToolCall>('POST', `/v1/tool-calls/${encodeURIComponent(id)}/resolve`, {
        outcome,
        ...(output === undefined ? {} : { output: parsedJson('--output', output) }),
        ...(note === undefined ? {} : { note }),
      });
      print(command, call, () => shown(call));
    });

  return calls;
}

function shown(call: ToolCall): string {
  return table(
    ['call', 'run', 'tool', 'state', 'settled by', 'arguments'],
    [[call.id, call.runId, call.name, call.state, call.settledBy, JSON.stringify(call.arguments)]],
  );
}
