import { Command } from 'commander';
import { agentsCommand } from './agents.js';
import { approvalsCommand } from './approvals.js';
import { auditCommand } from './audit.js';
import { config } from './config.js';
import { doctorCommand } from './doctor/command.js';
import { keysCommand } from './keys/command.js';
import { memoryCommand } from './memory.js';
import { pluginCommand } from './plugin/command.js';
import { pluginsCommand } from './plugins.js';
import { retentionCommand } from './retention.js';
import { runsCommand } from './runs.js';
import { secretsCommand } from './secrets.js';
import { sessionsCommand } from './sessions.js';
import { tenantsCommand } from './tenants/command.js';
import { toolCallsCommand } from './tool-calls.js';

/** The `codedock` command with all its subcommands. */
export function program(): Command {
  const command = new Command('codedock')
    .description('Keys, runs, approvals and plugins of a CodeDock installation.')
    .version('0.1.0')
    .option('--url <url>', 'gateway to talk to (CODEDOCK_URL)', config.url)
    .option('--json', 'print the answers as JSON')
    .addHelpText(
      'after',
      '\nThe API key is read from CODEDOCK_API_KEY, so that it shows up in no process list. Address and key of a running\n`npm start` are found by themselves when the command runs in the same folder.',
    )
    .exitOverride();
  command.addCommand(keysCommand());
  command.addCommand(tenantsCommand());
  command.addCommand(sessionsCommand());
  command.addCommand(runsCommand());
  command.addCommand(approvalsCommand());
  command.addCommand(toolCallsCommand());
  command.addCommand(pluginCommand());
  command.addCommand(pluginsCommand());
  command.addCommand(agentsCommand());
  command.addCommand(memoryCommand());
  command.addCommand(doctorCommand());
  command.addCommand(retentionCommand());
  command.addCommand(secretsCommand());
  command.addCommand(auditCommand());
  // Subcommands do not inherit it: without this a wrong option would end the process inside Commander.
  for (const group of command.commands) {
    group.exitOverride();
    for (const leaf of group.commands) leaf.exitOverride();
  }
  return command;
}
