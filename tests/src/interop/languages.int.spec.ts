import { eventually, expectNoLeftovers } from '@codedock/testkit';
import { describePeer, go, oldGo, type Peer, python, typescript } from './peers.js';
import { gateCall, type PluginHostUnderTest, patient, START_MS, startPluginHost } from './plugin-host.js';

const both: { go: Peer; python: Peer } | string =
  typeof go === 'string' ? go : typeof python === 'string' ? python : { go, python };

afterAll(() => expectNoLeftovers());

describePeer('one chain of plugins in Go, Python and TypeScript', both, ({ go, python }) => {
  let host: PluginHostUnderTest;
  beforeAll(async () => {
    host = await startPluginHost((root) =>
      Promise.all([
        go.install(root, 'a-go', patient),
        python.install(root, 'b-python', { ...patient, autoMtls: false }),
        typescript.install(root, 'c-typescript', patient),
      ]),
    );
  }, START_MS);
  afterAll(() => host?.close(), START_MS);

  it('is asked in order, each on what the former made of it', async () => {
    const { call, records, patches } = gateCall({ directive: { append: '!', set: { seen: true } } });
    const decision = await host.hosts.hooks().beforeInput?.({ content: 'Grüße' }, call);
    expect(decision).toEqual({ kind: 'transform', content: 'Grüße!!!' });
    expect(records.map(({ hook, outcome }) => [hook, outcome])).toEqual([
      ['a-go', 'changed'],
      ['b-python', 'changed'],
      ['c-typescript', 'changed'],
    ]);
    expect(patches).toEqual([{ set: { seen: true }, deleted: [] }]);
  });

  it('asks once for all who ask', async () => {
    const { call } = gateCall({ directive: { type: 'tools/ask', reason: 'look' } });
    const event = {
      call: { id: 'c', name: 'shell', arguments: {} },
      tool: { requiresApproval: false, effect: 'effectful' as const },
    };
    expect(await host.hosts.hooks().beforeToolCall?.(event, call)).toEqual({
      kind: 'ask',
      reasons: ['a-go', 'b-python', 'c-typescript'].map((by) => ({ by, reason: 'look' })),
    });
  });

  it('tells the others what one emits', async () => {
    const emit = { method: 'Emit', name: 'interop.told', value: { from: 'each' } };
    const { call } = gateCall({ directive: { calls: [emit] } });
    await host.hosts.hooks().beforeInput?.({ content: 'x' }, call);
    await eventually(() => {
      for (const plugin of ['a-go', 'b-python', 'c-typescript']) {
        const told = host.logged(plugin).filter(({ msg }) => msg === 'noticed');
        expect(told.map(({ plugin_fields: fields }) => fields?.['payload'])).toEqual([
          '{"from":"each"}',
          '{"from":"each"}',
        ]);
      }
    });
  });

  it('offers the tools of all', () => {
    const tools = host.hosts.tools(gateCall().call.principal);
    expect(tools.map(({ name, plugin }) => [name, plugin])).toEqual([
      ['a-go_tool', 'a-go'],
      ['b-python_tool', 'b-python'],
      ['c-typescript_tool', 'c-typescript'],
    ]);
  });
});

describePeer('a plugin on go-plugin 1.0.1 with AutoMTLS', oldGo, (peer) => {
  it(
    'is refused with the remedy: that library cannot call back over TLS',
    async () => {
      const host = await startPluginHost((root) => peer.install(root), { unready: true });
      try {
        await eventually(() => expect(host.process.output()).toMatch(/go-plugin.*1\.4\.4.*autoMtls/), {
          timeoutMs: 20_000,
        });
      } finally {
        await host.close();
      }
    },
    START_MS,
  );
});
