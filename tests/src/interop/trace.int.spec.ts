import { eventually, expectNoLeftovers } from '@codedock/testkit';
import { startTraceReceiver, type TraceReceiver } from '@codedock/trace-receiver';
import { fakeScript, START_MS, type System, startSystem, waitForPlugins } from '../system.js';
import { exportTo } from '../traces/collected.js';
import { describePeer, go, type Peer, python } from './peers.js';
import { patient } from './plugin-host.js';

const both: { go: Peer; python: Peer } | string =
  typeof go === 'string' ? go : typeof python === 'string' ? python : { go, python };
const PORTS = ['agent/input', 'agent/request', 'tools/pre-execute'];

afterAll(() => expectNoLeftovers());

describePeer('plugins in Go and Python in a traced system', both, ({ go, python }) => {
  let receiver: TraceReceiver;
  let system: System;

  beforeAll(async () => {
    receiver = await startTraceReceiver();
    system = await startSystem({
      env: exportTo(receiver),
      plugins: async (root) => {
        await go.install(root, 'a-go', patient);
        await python.install(root, 'b-python', patient);
      },
    });
    await waitForPlugins(system);
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await receiver?.close();
  }, START_MS);

  it('are told in the metadata of each question the trace of its gate', async () => {
    const run = await system.runToEnd(fakeScript({ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'done' }));
    await eventually(
      () => {
        const spans = receiver.spansOfRun(run.id);
        for (const plugin of ['a-go', 'b-python']) {
          for (const port of PORTS) {
            // Of every question at this port: the span it was asked in, and what the plugin was told.
            const asked = spans.filter(({ name }) => name === `plugin ${plugin} ${port}`).map(({ traceId }) => traceId);
            const told = toldTo(system, plugin, port);
            const wellFormed = asked.map((traceId) => expect.stringMatching(`^00-${traceId}-[0-9a-f]{16}-01$`));
            expect(asked.length).toBeGreaterThan(0);
            expect(told).toHaveLength(asked.length);
            expect(told).toEqual(wellFormed);
            const known = new Set(spans.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`));
            expect(told.filter((each) => !known.has(each))).toEqual([]);
          }
        }
      },
      { timeoutMs: 60_000, what: 'the spans of every question' },
    );
  }, 120_000);
});

/** The `traceparent` of every question at a port, as the plugin logged it. */
function toldTo(system: System, plugin: string, port: string): string[] {
  return system.pluginHosts
    .flatMap((host) => host.stdout().split('\n').slice(0, -1))
    .map((line) => JSON.parse(line) as { msg?: string; plugin?: string; plugin_fields?: Record<string, unknown> })
    .filter((line) => line.plugin === plugin && line.msg === 'traced' && line.plugin_fields?.['port'] === port)
    .map(({ plugin_fields: fields }) => String(fields?.['traceparent']));
}
