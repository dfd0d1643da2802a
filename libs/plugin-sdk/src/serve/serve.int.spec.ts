import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createHostIdentity,
  eventually,
  PluginProcess,
  type PluginProcessOptions,
  writePlugin,
} from '@codedock/testkit';

const chatty = `
import { log, serve } from '@codedock/plugin-sdk';
console.log('loading', { a: 1 });
process.stdout.write('raw output\\n');
serve({
  name: 'chatty',
  version: '1.0.0',
  onAgentInput: (input) => {
    console.warn('asked');
    log.info('with fields', { words: 2 });
    if (input.content === 'throw') throw new Error('from the handler');
    if (input.content === 'later') setTimeout(() => { throw new Error('nobody caught it'); }, 1);
    return input.reply({ content: input.content + '!' });
  },
});
`;

let root: string;
let executable: string;
const started: PluginProcess[] = [];

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'cds'));
  executable = await writePlugin(root, 'chatty', { source: chatty });
}, 60_000);

afterEach(async () => {
  for (const process of started.splice(0)) await process.dispose();
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

async function start(options: PluginProcessOptions = {}, path = executable): Promise<PluginProcess> {
  const process = await PluginProcess.start(path, options);
  started.push(process);
  return process;
}

const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe('a plugin process', () => {
  it.each(['plain', 'AutoMTLS'])('prints its handshake and nothing else, and answers over %s', async (transport) => {
    const process = await start(transport === 'plain' ? {} : { identity: await createHostIdentity() });
    const host = await process.connect();
    await host.bootstrap();
    const answer = await host.ask('agent/input', { content: 'a' });
    expect(JSON.parse(answer.payload.toString('utf8'))).toEqual({ content: 'a!' });
    await eventually(() => expect(host.printed).toBe('raw output\n'));
    expect(process.stdout.trim().split('\n')).toHaveLength(1);
    const lines = () =>
      process.stderr
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    await eventually(() =>
      expect(lines()).toMatchObject([
        { '@level': 'info', '@message': 'loading { a: 1 }' },
        { '@level': 'warn', '@message': 'asked' },
        { '@level': 'info', '@message': 'with fields', words: 2 },
      ]),
    );
  });

  it('names the places of its sources when a handler throws', async () => {
    const process = await start();
    const host = await process.connect();
    await host.bootstrap();
    await expect(host.ask('agent/input', { content: 'throw' })).rejects.toMatchObject({ details: 'from the handler' });
    await eventually(() => expect(process.stderr).toMatch(/plugin\.ts:12:\d+/));
  });

  it('says why it ends by an error nobody caught', async () => {
    const process = await start();
    const host = await process.connect();
    await host.bootstrap();
    await host.ask('agent/input', { content: 'later' }).catch(() => undefined);
    expect(await process.exited).toEqual({ code: 1, signal: null });
    expect(process.stderr).toContain('nobody caught it');
  });

  it('answers Shutdown, then ends and leaves no socket', async () => {
    const process = await start();
    const host = await process.connect();
    const socket = (await process.handshake()).split('|')[3] ?? '';
    await host.bootstrap();
    expect(existsSync(socket)).toBe(true);
    await host.shutdown();
    expect(await process.exited).toEqual({ code: 0, signal: null });
    expect(existsSync(socket)).toBe(false);
  });

  it('ignores SIGINT', async () => {
    const process = await start();
    const host = await process.connect();
    await host.bootstrap();
    process.child.kill('SIGINT');
    expect((await host.ask('agent/input', { content: 'a' })).payload.length).toBeGreaterThan(0);
  });

  it('ends when its host drops the connection and does not say goodbye', async () => {
    const process = await start();
    const host = await process.connect();
    await host.bootstrap();
    host.close();
    expect(await process.exited).toEqual({ code: 0, signal: null });
  }, 15_000);

  it('ends when its host dies, connected or not', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'cdp'));
    const script = `
      const { spawn } = require('node:child_process');
      const child = spawn(process.argv[1], [], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, CODEDOCK_PLUGIN: 'codedock-plugin-v1', PLUGIN_UNIX_SOCKET_DIR: process.argv[2] } });
      child.stdout.once('data', () => console.log(child.pid));
    `;
    const parent = spawn(process.execPath, ['-e', script, executable, directory], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    expect(alive(pid)).toBe(true);
    parent.kill('SIGKILL');
    await eventually(() => expect(alive(pid)).toBe(false));
    expect(readdirSync(directory)).toEqual([]);
    rmSync(directory, { recursive: true });
  }, 15_000);

  it('started by hand says what it is', async () => {
    const process = await start({ environment: { CODEDOCK_PLUGIN: undefined } });
    expect(await process.exited).toEqual({ code: 1, signal: null });
    expect(process.stderr).toContain('This is the CodeDock plugin chatty 1.0.0. It is started by the plugin-host');
  });

  it('that cannot listen says why, before any handshake', async () => {
    const process = await start({ environment: { PLUGIN_UNIX_SOCKET_DIR: `/tmp/${'x'.repeat(100)}` } });
    expect((await process.exited).code).toBe(1);
    expect(process.stderr).toContain('the plugin cannot start: the socket path');
    expect(process.stdout).toBe('');
  });
});
