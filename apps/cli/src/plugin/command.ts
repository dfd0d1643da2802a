import { basename, relative, resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { apiClient } from '../api-client.js';
import { config } from '../config.js';
import { print, table } from '../output.js';
import { buildPlugin } from './build.js';
import { developPlugin } from './dev.js';
import { type Language, languages, parseLanguage } from './language.js';
import { requirePluginName } from './name.js';
import { newPlugin } from './new-plugin.js';
import { recordPlugin } from './record.js';
import { describeTest, pluginFolder, recordingsOf, testPluginFolder } from './test-plugin.js';
import { type HostedBench, hostedBench } from './workbench.js';

/** `codedock plugin new|…`: what an author of plugins needs, from the first file on. */
export function pluginCommand(): Command {
  const plugin = new Command('plugin').description('Write, try and measure a plugin of your own.');

  plugin
    .command('new')
    .description('make the folder of a new plugin')
    .argument('<name>', 'name of the plugin: lower-case letters, digits and "-"')
    .addOption(
      new Option('--language <language>', `one of ${languages.join(', ')}`)
        .default('typescript')
        .argParser<Language>(parseLanguage),
    )
    .option('--in <folder>', "folder the plugin's folder is made in", '.')
    .option('--no-install', 'only write the files: install and build nothing')
    .action(async (name: string, options: NewOptions, command: Command) => {
      const { language, in: parent, install } = options;
      const folder = await newPlugin({ name, language, parent, install, onStep });
      print(command, { name, language, folder, built: install }, () => nextSteps(folder, install));
    });

  plugin
    .command('test')
    .description('build a plugin, run its own tests, and put its recordings to it by the code of the plugin-host')
    .argument('[folder]', "the plugin's folder", '.')
    .option('--replay <file...>', 'recordings in place of those in <folder>/recordings')
    .action(async (folder: string, { replay }: { replay?: string[] }, command: Command) => {
      const report = await testPluginFolder(folder, { ...(replay === undefined ? {} : { replay }), onStep });
      print(command, report, () => describeTest(report));
      if (!report.passed) process.exitCode = 1;
    });

  plugin
    .command('bench')
    .description('measure every port of a plugin against a bare call of the same run')
    .argument('[folder]', "the plugin's folder", '.')
    .option('--calls <n>', 'calls per port', parseCalls, 500)
    .option('--replay <file...>', 'recordings whose first question of a port is asked; default those of the folder')
    .action(async (given: string, { calls, replay }: { calls: number; replay?: string[] }, command: Command) => {
      const folder = await pluginFolder(given);
      await buildPlugin(folder, onStep);
      onStep(`${calls} calls per port`);
      const bench = await hostedBench(folder, replay ?? (await recordingsOf(folder)), calls);
      print(command, bench, () => describeBench(bench));
    });

  plugin
    .command('dev')
    .description('load a plugin into a running installation, again on every change, until Ctrl-C')
    .argument('[folder]', "the plugin's folder", '.')
    .option('--root <folder>', 'a plugin root of that installation; default: that of `npm start` of this clone')
    .option('--once', 'build and load it once, and leave it there')
    .action(async (given: string, { root, once = false }: DevCommandOptions, command: Command) => {
      const folder = await pluginFolder(given);
      requirePluginName(basename(folder));
      const loaded = await developPlugin(folder, {
        client: apiClient(command),
        root: root === undefined ? config.pluginRoot : resolve(root),
        once,
        signal: interrupted(),
        onLoaded: (one) => print(command, one, () => `${one.plugin}: ${one.text}`),
      });
      if (once && !loaded.ready) process.exitCode = 1;
    });

  plugin
    .command('record')
    .description('write what a plugin is asked in a running installation, with its answers, to a file')
    .argument('<plugin>', 'name of the plugin')
    .requiredOption('--out <file>', 'file to write, one JSON object a line')
    .option('--append', 'add to a file that exists')
    .option('--limit <n>', 'end after so many questions', parseCalls)
    .option('--seconds <n>', 'end after so many seconds; else Ctrl-C does', parseCalls)
    .action(async (name: string, options: RecordCommandOptions, command: Command) => {
      const { out, append = false, limit, seconds } = options;
      const timeout = seconds === undefined ? [] : [AbortSignal.timeout(seconds * 1_000)];
      const { questions, ended } = await recordPlugin({
        client: apiClient(command),
        plugin: name,
        file: out,
        append,
        ...(limit === undefined ? {} : { limit }),
        signal: AbortSignal.any([interrupted(), ...timeout]),
        onBegun: () => onStep(`recording what ${name} is asked into ${out}`),
      });
      print(command, { plugin: name, file: out, questions, ended }, () => `${questions} questions in ${out}: ${ended}`);
    });
  return plugin;
}

interface DevCommandOptions {
  readonly root?: string;
  readonly once?: boolean;
}

interface RecordCommandOptions {
  readonly out: string;
  readonly append?: boolean;
  readonly limit?: number;
  readonly seconds?: number;
}

/** Fires at Ctrl-C, so that the command ends in good order; a second one ends it at once. */
function interrupted(): AbortSignal {
  const abort = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => abort.abort());
  return abort.signal;
}

const mostCalls = 1_000_000;

function parseCalls(text: string): number {
  const calls = Number(text);
  if (Number.isInteger(calls) && calls >= 1 && calls <= mostCalls) return calls;
  throw new InvalidArgumentError(`Give a whole number from 1 to ${mostCalls}.`);
}

function describeBench({ name, floor, ports }: HostedBench): string {
  if (ports.length === 0) return `${name} subscribes to no port: there is nothing to measure.`;
  const rows = ports.map((one) => [one.port, one.p50_ms, one.p99_ms, one.floor_p50_ms, one.floor_p99_ms, one.ratio]);
  return [
    table(['port', 'p50 ms', 'p99 ms', 'floor p50 ms', 'floor p99 ms', 'p50 / floor'], rows),
    `floor: ${floor}, in turns with the plugin`,
  ].join('\n');
}

/** Progress goes to stderr, so that stdout is the answer. */
function onStep(what: string): void {
  console.error(`${what} …`);
}

interface NewOptions {
  readonly language: Language;
  readonly in: string;
  readonly install: boolean;
}

function nextSteps(folder: string, built: boolean): string {
  const shown = relative('', folder) || folder;
  return [
    `${folder} is made${built ? ' and built' : ''}. Next:`,
    `  codedock plugin test ${shown}    its own tests, then its recordings by the code of the plugin-host`,
    `  codedock plugin dev ${shown}     load it into a running installation, again on every change`,
  ].join('\n');
}
