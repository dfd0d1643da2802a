import { X509Certificate } from 'node:crypto';
import { readdirSync, readlinkSync } from 'node:fs';
import pino from 'pino';
import { createPluginRoot, type PluginRoot } from '../../test/plugin-folder.js';
import { startTestHost, until } from '../../test/test-host.js';
import { createIdentity } from '../process/certificate.js';

const log = pino({ level: 'silent' });
let root: PluginRoot;

beforeEach(() => {
  root = createPluginRoot();
});

afterEach(() => {
  expect(processesIn(root.path)).toEqual([]);
  root.remove();
});

/** Ids of processes that run in a folder below, as every plugin and what it has started does; zombies have none. */
function processesIn(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
    } catch {
      return false;
    }
  });
}

let certificate: string;

beforeAll(async () => {
  certificate = new X509Certificate((await createIdentity()).certificatePem).raw.toString('base64').replace(/=+$/, '');
});

/** Starts a host on the root and answers why its only plugin is not up. */
async function reasonOf(startTimeout: string): Promise<string> {
  const running = await startTestHost(root.path, log, { PLUGIN_START_TIMEOUT: startTimeout });
  try {
    const reason = () => running.host.listPlugins().plugins[0];
    await until(
      () => reason()?.state === 'failed',
      () => JSON.stringify(reason()),
    );
    return reason()?.reason ?? '';
  } finally {
    await running.close();
  }
}

const prints = (line: string) => `#!/bin/sh\nprintf '%s\\n' '${line}'\nexec sleep 60\n`;
const plain = { autoMtls: false };
/** A plugin that answers a connection with something else than gRPC. */
const serves = (answer: string) => `#!/usr/bin/env node
const path = process.env.PLUGIN_UNIX_SOCKET_DIR + '/s';
require('node:net').createServer((socket) => { socket.on('error', () => {}); ${answer} }).listen(path, () => console.log('1|1|unix|' + path + '|grpc'));
`;

describe('a plugin that cannot be used says why', () => {
  it.each<[string, string, object, RegExp]>([
    [
      'exits first',
      '#!/bin/sh\necho reason >&2\nexit 3\n',
      plain,
      /ended \(exit code 3\) before the handshake.*"reason"/,
    ],
    ['exits 0 first', '#!/bin/sh\nexit 0\n', plain, /ended \(exit code 0\) before the handshake/],
    ['is killed first', '#!/bin/sh\nkill -SEGV $$\n', plain, /ended \(signal SIGSEGV\)/],
    ['is silent', '#!/bin/sh\nexec sleep 60\n', plain, /no handshake within 2000 ms and was killed/],
    [
      'prints no newline',
      '#!/bin/sh\nprintf "1|1|unix|/s|grpc"\nexec sleep 60\n',
      plain,
      /no handshake within 2000 ms/,
    ],
    ['closes stdout', '#!/bin/sh\nexec >&-\nexec sleep 60\n', plain, /closed its stdout without a handshake/],
    [
      'prints text first',
      prints('loading config...'),
      plain,
      /"loading config\.\.\."\. It writes to stdout before the handshake/,
    ],
    ['prints a secret first', prints('using key sk-abcdefghijklmnopqrst'), plain, /"using key \[redacted\]"/],
    ['floods stdout', '#!/bin/sh\nhead -c 200000 /dev/zero | tr "\\0" x\nexec sleep 60\n', plain, /no handshake: "xxx/],
    ['speaks net/rpc', prints('1|1|unix|/tmp/none'), plain, /net\/rpc plugin/],
    ['says that it speaks net/rpc', prints('1|1|unix|/tmp/none|netrpc'), plain, /net\/rpc plugin/],
    ['speaks another core protocol', prints('2|1|unix|/s|grpc'), plain, /core protocol 2, this host speaks 1/],
    ['has a core protocol that is no number', prints('v1|1|unix|/s|grpc'), plain, /core protocol version "v1" is no/],
    ['speaks another app protocol', prints('1|9|unix|/s|grpc'), plain, /app protocol version 9, this host speaks 1/],
    ['listens on another network', prints('1|1|udp|127.0.0.1:1|grpc'), plain, /network "udp"/],
    ['listens beyond this machine', prints('1|1|tcp|0.0.0.0:1|grpc'), plain, /is not on 127\.0\.0\.1/],
    ['has too long a socket path', prints(`1|1|unix|/${'s'.repeat(120)}|grpc`), plain, /121 bytes, at most 107 work/],
    [
      'sends junk for a certificate',
      prints(`1|1|unix|/s|grpc|${'A'.repeat(60)}`),
      {},
      /sixth field .* is no certificate/,
    ],
    [
      'sends junk for a certificate without TLS',
      prints(`1|1|unix|/s|grpc|${'A'.repeat(60)}`),
      plain,
      /sixth field .* is no certificate/,
    ],
    ['announces a missing socket', prints('1|1|unix|/tmp/none/s|grpc'), plain, /socket it announced does not exist/],
    ['announces a closed port', prints('1|1|tcp|127.0.0.1:1|grpc'), plain, /nothing listens on the address/],
    ['sends no certificate', prints('1|1|unix|/tmp/none/s|grpc|'), {}, /no certificate although AutoMTLS is on/],
    [
      'names an interpreter that is not there',
      '#!/opt/none/python9\n',
      plain,
      /names an interpreter in its first line that is not installed/,
    ],
    [
      'is a program that is not there',
      '',
      { autoMtls: false, command: ['no-such-program-here', 'p'] },
      /no-such-program-here was not found on PATH/,
    ],
  ])('%s', async (_, text, settings, message) => {
    root.addScript('p', text, settings);
    expect(await reasonOf('2s')).toMatch(message);
  });

  it.each<[string, object, object, RegExp]>([
    ['has no health service', { noHealth: true }, {}, /no go-plugin health service/],
    ['is not serving', { health: { status: 2 } }, {}, /status 2 instead of SERVING/],
    ['never answers health', { health: { hang: true } }, {}, /did not answer a health check within \d+ ms/],
    [
      'never answers Bootstrap',
      { bootstrap: { hang: true } },
      {},
      /did not answer Bootstrap within the start time-out/,
    ],
    [
      'dies between the handshake and Bootstrap',
      { health: { exit: 3 } },
      {},
      /ended \(exit code 3\) after its handshake, before it had answered Bootstrap/,
    ],
    ['dies in Bootstrap', { bootstrap: { exit: 4 } }, {}, /ended \(exit code 4\) after its handshake, before it had/],
    ['is another kind of plugin', { noPluginService: true }, {}, /does not serve codedock\.plugin\.v1\.Plugin/],
    [
      'uses another certificate than announced',
      { wrongCertificate: true },
      {},
      /certificate it uses is not the one it announced/,
    ],
    ['registers a built-in tool', { tools: [{ name: 'ping' }] }, {}, /Bootstrap failed .*built-in tool/],
    [
      'subscribes to a port that does not exist',
      { subscriptions: ['agent/output'] },
      {},
      /unknown port "agent\/output"/,
    ],
    ['speaks a newer protocol', { manifest: { protocolMajor: 2 } }, {}, /plugin protocol 2, this host speaks 1/],
    [
      'loosens by a wrong word',
      { manifest: { portFailurePolicy: { 'agent/input': 'ajar' } } },
      {},
      /"ajar"; use "open" or "closed"/,
    ],
    [
      'loosens a veto port',
      { manifest: { portFailurePolicy: { 'agent/input': 'open' } } },
      {},
      /port_failure_policy of agent\/input is "open", which would loosen a veto port/,
    ],
  ])('%s', async (_, config, settings, message) => {
    root.addFixture('p', config, settings);
    expect(await reasonOf('8s')).toMatch(message);
  });

  it.each<[string, string, RegExp]>([
    ['is not HTTP/2', "socket.end('220 hello\\r\\n')", /does not speak HTTP\/2 on the address it announced/],
    ['says nothing', '', /accepted the connection and did not answer a health check within \d+ ms/],
    ['hangs up', 'socket.destroy()', /cannot be reached on the address it announced/],
  ])('serves something that %s', async (_, answer, message) => {
    root.addScript('p', serves(answer), plain);
    expect(await reasonOf('8s')).toMatch(message);
  });

  it('sends a certificate nobody asked for', async () => {
    root.addScript('p', prints(`1|1|unix|/tmp/none/s|grpc|${certificate}`), plain);
    expect(await reasonOf('8s')).toMatch(/sent a certificate although AutoMTLS is off.*remove "autoMtls": false/);
  });

  it('ends while what it has started holds its outputs open', async () => {
    root.addScript('p', '#!/bin/sh\nsetsid sleep 600 &\necho reason >&2\nexit 3\n', plain);
    expect(await reasonOf('30s')).toMatch(/ended \(exit code 3\) before the handshake.*"reason"/);
  });

  it('prints its handshake without a line end, and closes stdout', async () => {
    root.addScript('p', '#!/bin/sh\nprintf "1|1|unix|/tmp/none/s|grpc"\nexec >&-\nexec sleep 60\n', plain);
    expect(await reasonOf('8s')).toMatch(/socket it announced does not exist/);
  });

  it('opens its outputs by path', async () => {
    root.addScript('p', '#!/bin/sh\necho loading > /dev/stderr\nexit 4\n', plain);
    expect(await reasonOf('8s')).toMatch(
      /exit code \d+.*\/dev\/stderr.*cannot be opened by path; write to >&1 and >&2/s,
    );
  });
});
