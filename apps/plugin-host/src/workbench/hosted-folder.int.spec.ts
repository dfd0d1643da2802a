import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { plugin } from '@codedock/proto';
import { pino } from 'pino';
import { createPluginRoot, type PluginRoot } from '../../test/plugin-folder.js';
import { type HostedFolder, hostFolder } from './hosted-folder.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;
if (!hasPython) process.stderr.write('skipped: a folder hosted over NDJSON: there is no python3 on PATH\n');
const itWithPython = hasPython ? it : it.skip;
const log = pino({ level: 'silent' });
const environment = { PATH: process.env['PATH'] };
const question = (command: string) =>
  plugin.Envelope.fromPartial({
    type: 'tools/pre-execute',
    sessionId: 'session-1',
    payload: Buffer.from(JSON.stringify({ call: { id: 'c1', name: 'shell', arguments: { command } } })),
  });

describe('the plugin of one folder, outside of a service', () => {
  let root: PluginRoot;
  let hosted: HostedFolder | undefined;
  beforeEach(() => {
    root = createPluginRoot();
  });
  afterEach(async () => {
    await hosted?.close();
    hosted = undefined;
    root.remove();
  });

  itWithPython('is asked by the chain of the service, whatever its neighbours are', async () => {
    const folder = root.addExample('shell-policy');
    root.addScript('broken', 'no plugin at all');
    hosted = await hostFolder(folder, { log, environment });
    expect(hosted).toMatchObject({ name: 'shell-policy', transport: 'stdio' });
    expect(hosted.manifest.subscriptions).toEqual(['tools/pre-execute']);

    const short = await hosted.gate('tools/pre-execute', question('ls'));
    expect(short).toMatchObject({ askReasons: [], failure: undefined });
    const long = await hosted.gate('tools/pre-execute', question('x'.repeat(81)));
    expect(long.askReasons).toEqual([{ plugin: 'shell-policy', reason: 'the command has 81 characters' }]);

    const before = hosted.pid;
    await hosted.reload();
    expect(hosted.pid).not.toBe(before);
    expect(await hosted.ask(question('ls'), 5_000)).toMatchObject({ kind: 'answered' });
  });

  it('answers call-backs from memory', async () => {
    const call = { method: 'appendNotice', request: { text: 'seen' } };
    const config = { subscriptions: ['agent/input'], answers: { 'agent/input': { call } } };
    hosted = await hostFolder(root.addFixture('calls', config), { log, environment });
    const payload = Buffer.from('{"content":"hello"}');
    const envelope = plugin.Envelope.fromPartial({ type: 'agent/input', sessionId: 'session-1', payload });
    expect((await hosted.gate('agent/input', envelope)).failure).toBeUndefined();
    expect(hosted.hostApi.notices).toEqual(['seen']);
  });

  it('is refused with the reason of the host', async () => {
    const folder = root.addScript('exits', '#!/bin/sh\necho "no licence" >&2\nexit 3\n', {
      restart: { policy: 'never' },
    });
    await expect(hostFolder(folder, { log, environment })).rejects.toThrow(/exit code 3[\s\S]*no licence/);
    await rm(join(folder, 'plugin.json'));
    await rm(join(folder, 'exits'));
    await expect(hostFolder(folder, { log, environment })).rejects.toThrow('build the plugin first');
    await expect(hostFolder(join(folder, 'absent'), { log, environment })).rejects.toThrow('cannot be read (ENOENT)');
  });
});
