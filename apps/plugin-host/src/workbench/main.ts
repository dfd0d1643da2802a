import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { isAppError } from '@codedock/domain';
import { createLogger } from '@codedock/platform';
import { isPort, type Port, type plugin } from '@codedock/proto';
import { hostEnvironment } from '../config.js';
import { scanFolder } from '../discovery/scanner.js';
import { envelopeOf } from '../recording/envelope-json.js';
import { type Recorded, readRecording } from '../recording/recorded.js';
import { benchPort } from './bench.js';
import { startFloor } from './floor-call.js';
import { type HostedFolder, hostFolder } from './hosted-folder.js';
import { replayQuestion } from './replay.js';
import { sampleQuestion } from './sample-questions.js';

const usage = `Usage: workbench test|bench <folder> [--recording <file>]… [--calls <n>]
Runs the plugin of one folder by the code of the plugin-host. Prints one JSON document; the plugin's warnings go to stderr.`;

const warnings = createLogger({
  app: 'plugin-host',
  level: 'warn',
  format: 'pretty',
  to: { write: (line) => void process.stderr.write(line) },
});

async function main(): Promise<object> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { recording: { type: 'string', multiple: true, default: [] }, calls: { type: 'string', default: '500' } },
  });
  const [act, folder] = positionals;
  if ((act !== 'test' && act !== 'bench') || folder === undefined) throw new TypeError(usage);
  const recordings = await Promise.all(values.recording.map(read));
  const hosted = await hostFolder(folder, { log: warnings, environment: hostEnvironment });
  try {
    return act === 'test'
      ? await test(hosted, recordings)
      : await bench(hosted, folder, recordings, Number(values.calls));
  } finally {
    await hosted.close();
  }
}

interface Recording {
  readonly file: string;
  readonly questions: readonly Recorded[];
}

async function read(file: string): Promise<Recording> {
  return { file, questions: readRecording(await readFile(file, 'utf8'), file) };
}

async function test(hosted: HostedFolder, recordings: readonly Recording[]): Promise<object> {
  const replayed: object[] = [];
  for (const { file, questions } of recordings) {
    for (const [index, recorded] of questions.entries())
      replayed.push({ file, question: index + 1, ...(await replayQuestion(hosted, recorded)) });
  }
  const { manifest, name, transport, tools } = hosted;
  return {
    name,
    version: manifest.version,
    transport,
    subscriptions: manifest.subscriptions,
    tools: tools.map((tool) => tool.name),
    replayed,
  };
}

async function bench(
  hosted: HostedFolder,
  folder: string,
  recordings: readonly Recording[],
  calls: number,
): Promise<object> {
  const found = await scanFolder(folder);
  const tls = hosted.transport === 'grpc' && found.kind === 'candidate' && found.settings.autoMtls;
  const floor = await startFloor(hosted.transport, tls);
  try {
    const ports = [];
    for (const port of hosted.manifest.subscriptions.filter(isPort)) {
      const envelope = questionOf(port, recordings);
      ports.push(await benchPort(hosted, floor, { port, envelope, toolName: toolNameOf(envelope) }, calls));
    }
    return { name: hosted.name, transport: hosted.transport, floor: floorName(hosted.transport, tls), ports };
  } finally {
    await floor.close();
  }
}

/** The first recorded question of the port, else a sample. */
function questionOf(port: Port, recordings: readonly Recording[]): plugin.Envelope {
  const recorded = recordings.flatMap(({ questions }) => questions).find(({ question }) => question.type === port);
  return recorded === undefined ? sampleQuestion(port) : envelopeOf(recorded.question);
}

function toolNameOf({ payload }: plugin.Envelope): string {
  const { call } = JSON.parse(payload.toString('utf8')) as { readonly call?: { readonly name?: string } };
  return call?.name ?? '';
}

function floorName(transport: HostedFolder['transport'], tls: boolean): string {
  if (transport === 'stdio') return 'a line to a process and back';
  return `a bare gRPC call to a Node process on a Unix socket${tls ? ' with mutual TLS' : ''}`;
}

main().then(
  (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`),
  (error: Error) => {
    const text = isAppError(error) || error instanceof TypeError ? error.message : (error.stack ?? error.message);
    process.stderr.write(`${text}\n`);
    process.exitCode = 1;
  },
);
