import { spawn } from 'node:child_process';
import { createIdentity } from '../../process/certificate.js';
import { GrpcLink } from '../../process/grpc-link.js';
import { killTree } from '../../process/kill-processes.js';
import { PluginChannel } from '../../process/plugin-channel.js';
import { requireStillAnswers } from '../ask.js';
import type { Check } from '../check.js';
import type { Specimen } from '../specimen.js';

const connectTimeoutMs = 2_000;

const overStdio = ({ plugin }: Specimen) => (plugin.transport === 'stdio' ? 'it speaks NDJSON on stdio' : undefined);
const withoutTls = (specimen: Specimen) =>
  overStdio(specimen) ?? (specimen.plugin.settings.autoMtls ? undefined : 'its plugin.json turns AutoMTLS off');

/** Starting, and who may connect. */
export const startChecks: readonly Check[] = [
  {
    about: 'start',
    title: 'started by hand, it ends with an error and prints nothing on stdout',
    skipped: overStdio,
    run: requireEndsByHand,
  },
  {
    about: 'start',
    title: 'a second process takes over from the first, as a reload does',
    async run(specimen) {
      const before = specimen.requireAlive();
      await specimen.plugin.reload();
      if (specimen.requireAlive() === before) throw new Error('the first process is still the one that is asked');
      await requireStillAnswers(specimen);
    },
  },
  {
    about: 'TLS',
    title: 'takes nobody with another certificate than its host',
    skipped: withoutTls,
    run: async (specimen) => requireRefused(specimen, await createIdentity()),
  },
  {
    about: 'TLS',
    title: 'takes nobody without a certificate',
    skipped: withoutTls,
    run: (specimen) => requireRefused(specimen, undefined),
  },
];

async function requireRefused(specimen: Specimen, identity: Awaited<ReturnType<typeof createIdentity>> | undefined) {
  const { connection } = specimen.requireAlive();
  const handshake = connection instanceof GrpcLink ? connection.handshake : undefined;
  if (handshake === undefined) throw new Error('it has announced no address');
  const stranger = new PluginChannel(identity === undefined ? { target: handshake.target } : handshake, identity);
  const admitted = await stranger.checkHealth(connectTimeoutMs).then(
    () => true,
    () => false,
  );
  stranger.close();
  if (admitted)
    throw new Error('it answered a stranger; demand the certificate in PLUGIN_CLIENT_CERT and trust no other');
  await requireStillAnswers(specimen);
}

async function requireEndsByHand({ plugin, folder, startTimeoutMs, environment }: Specimen): Promise<void> {
  const [program, ...words] = plugin.command;
  const { PATH, HOME } = environment;
  const child = spawn(program, words, {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH, HOME },
  });
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString('utf8');
  });
  const end = await new Promise<number | string>((resolve) => {
    const late = setTimeout(() => {
      if (child.pid !== undefined) void killTree(child.pid);
      resolve(`it still runs after ${startTimeoutMs} ms`);
    }, startTimeoutMs);
    child.once('error', (error) => {
      clearTimeout(late);
      resolve(error.message);
    });
    child.once('close', (code, signal) => {
      clearTimeout(late);
      resolve(code ?? `it ended by ${signal}`);
    });
  });
  if (printed !== '')
    throw new Error(`it printed ${JSON.stringify(printed.slice(0, 100))} on stdout; say it on stderr`);
  if (end === 0)
    throw new Error('it ended with exit code 0; end with 1 where CODEDOCK_PLUGIN is not codedock-plugin-v1');
  if (typeof end === 'string')
    throw new Error(`${end}; say that it is a plugin and end where CODEDOCK_PLUGIN is not codedock-plugin-v1`);
}
