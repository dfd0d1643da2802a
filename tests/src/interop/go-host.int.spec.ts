// The real go-plugin client as the host: what a plugin of ours must be to any host, not only to CodeDock's.
import { startProcess, temporaryFolder } from '@codedock/testkit';
import { describePeer, go, goHost, type Peer, python, typescript } from './peers.js';

interface Report {
  readonly error?: string;
  readonly [field: string]: unknown;
}

const RUN_MS = 60_000;

describePeer('a go-plugin host', goHost, ({ program }) => {
  const drive = async (peer: Peer, ...flags: string[]): Promise<Report> => {
    const folder = await temporaryFolder('cdg-');
    try {
      const plugin = await peer.install(folder.path);
      const run = await startProcess({ command: program, args: [...flags, plugin] });
      await run.exited;
      return JSON.parse(run.stdout()) as Report;
    } finally {
      await folder.remove();
    }
  };

  const drives = (peer: Peer, flags: string[]) =>
    it(
      `drives ${peer.name} ${flags.join(' ') || 'plain'}: everything from handshake to kill`,
      async () => {
        const report = await drive(peer, ...flags);
        expect(report).toMatchObject({
          version: 1,
          ping: 'ok',
          manifest: { name: peer.name, subscriptions: expect.arrayContaining(['agent/input', 'run.started']) },
          registered: [`${peer.name}_tool`],
          answer: {
            type: 'agent/input',
            payload: { content: 'héllo 🦫 <&>!' },
            context: {
              k: [1, null, 'ü'],
              called: [
                { code: 0 },
                { code: 0, text: 'stored ü' },
                { code: 5 },
                { code: 12, text: expect.stringMatching(/not implemented|not offer/) },
              ],
            },
          },
          memory: { n: 'stored ü' },
          blocked: { type: 'tools/denied', reason: 'not ünder my watch' },
          failure: expect.stringContaining('the handler failed'),
          cancelled: expect.stringMatching(/DeadlineExceeded/),
          tool: { arguments: { text: 'ü' }, call_id: 'c1' },
          tool_failure: expect.stringContaining('no tool "unknown"'),
          stdout: 'printed\n',
          logged: [{ '@level': 'warn', '@message': 'logged', answer: 42 }],
          exited: true,
        });
        expect(report.error).toBeUndefined();
        // go-plugin kills what has not ended by itself after 2 s.
        expect(report['kill_ms']).toBeLessThan(2_000);
      },
      RUN_MS,
    );

  const refusesMultiplexing = (peer: Peer) =>
    it(
      `is refused one connection for everything by ${peer.name}, and says so`,
      async () => {
        const { error } = await drive(peer, '-multiplex');
        expect(error).toContain('plugin does not support the feature');
      },
      RUN_MS,
    );

  drives(typescript, []);
  drives(typescript, ['-mtls']);
  refusesMultiplexing(typescript);
  describePeer('with the plugin in Go', go, (peer) => {
    drives(peer, ['-mtls']);
    drives(peer, ['-multiplex']);
  });
  describePeer('with the plugin in Python', python, (peer) => {
    drives(peer, []);
    refusesMultiplexing(peer);

    it(
      'cannot use AutoMTLS, because its own certificate is P-521, and the plugin says so',
      async () => {
        const { error, logged } = await drive(peer, '-mtls');
        expect(error).toMatch(/^ping: /);
        expect(logged).toContainEqual(expect.objectContaining({ '@message': expect.stringContaining('is P-521') }));
      },
      RUN_MS,
    );
  });
});
