import { Command } from 'commander';
import { apiClient } from './api-client.js';
import { config } from './config.js';
import { type TailedEvent, tailRun } from './event-tail.js';
import { print, table } from './output.js';
import { spansOfRun, spanWaterfall } from './spans.js';
import { type RunTrace, waterfall } from './waterfall.js';

interface StartedRun {
  handled: boolean;
  runId: string | null;
  run: { id: string; sessionId: string; status: string } | null;
}

/** `codedock runs start|tail|trace`. */
export function runsCommand(): Command {
  const runs = new Command('runs').description('Start runs, follow them, see which gates they passed.');

  runs
    .command('start')
    .description('start a run with a message, in a new session unless one is given')
    .argument('<content>', 'the message')
    .option('--session <id>', 'session to continue')
    .option('--agent <name>', 'agent profile')
    .option('--mode <label>', 'mode of the profile')
    .option('--on-busy <what>', 'reject, enqueue or interrupt an active run of the session')
    .option('--tail', 'follow the run to its end')
    .action(
      async (
        content: string,
        options: { session?: string; agent?: string; mode?: string; onBusy?: string; tail?: boolean },
        command: Command,
      ) => {
        const client = apiClient(command);
        const session = options.session ?? (await client.call<{ id: string }>('POST', '/v1/sessions', {})).id;
        const { agent, mode, onBusy } = options;
        const answer = await client.call<StartedRun>('POST', `/v1/sessions/${encodeURIComponent(session)}/runs`, {
          content,
          ...(agent === undefined ? {} : { agent }),
          ...(mode === undefined ? {} : { mode }),
          ...(onBusy === undefined ? {} : { onBusy }),
        });
        print(command, answer, () =>
          answer.runId === null
            ? `handled by a policy: no run was created in session ${session}`
            : `run ${answer.runId}  session ${session}  ${answer.run?.status ?? ''}`,
        );
        if (options.tail === true && answer.runId !== null)
          await tailRun(client, answer.runId, 0, (event) => printEvent(command, event));
      },
    );

  runs
    .command('tail')
    .description("follow a run's events to its end")
    .argument('<run>', 'run id')
    .option('--after <seq>', 'begin after this seq', '0')
    .action(async (run: string, options: { after: string }, command: Command) => {
      if (!/^\d+$/.test(options.after)) throw new Error(`--after takes a sequence number, not "${options.after}".`);
      await tailRun(apiClient(command), run, Number(options.after), (event) => printEvent(command, event));
    });

  runs
    .command('trace')
    .description('a run as a waterfall: gates with plugin and decision, turns, model calls, tools')
    .argument('<run>', 'run id')
    .option('--spans', 'every span of every process, as kept by `npm start -- --traces`')
    .action(async (run: string, options: { spans?: boolean }, command: Command) => {
      if (options.spans === true) {
        const found = await spansOfRun(config.tracesUrl, run);
        print(command, { spans: found }, () => spanWaterfall(found));
        return;
      }
      const trace = await apiClient(command).call<RunTrace>('GET', `/v1/runs/${encodeURIComponent(run)}/trace`);
      print(command, trace, () => waterfall(trace));
    });

  runs
    .command('cancel')
    .description('cancel a run')
    .argument('<run>', 'run id')
    .action(async (run: string, _options: unknown, command: Command) => {
      const view = await apiClient(command).call<{ id: string; status: string; stopReason?: string }>(
        'POST',
        `/v1/runs/${encodeURIComponent(run)}/cancel`,
        {},
      );
      print(command, view, () => table(['run', 'status', 'stop reason'], [[view.id, view.status, view.stopReason]]));
    });

  return runs;
}

function printEvent(command: Command, event: TailedEvent): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  process.stdout.write(
    json === true
      ? `${JSON.stringify(event)}\n`
      : `${String(event.seq).padStart(5)}  ${event.type.padEnd(24)}  ${JSON.stringify(event.payload)}\n`,
  );
}
