import { eventually, expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

const guard = (name: string) => `
  import { serve } from '@codedock/plugin-sdk';
  serve({ name: '${name}', version: '1.0.0', onAgentInput: () => undefined, onToolPreExecute: () => undefined });
`;

interface Listed {
  readonly name: string;
  readonly state: string;
  readonly disabled: boolean;
  readonly replicas: readonly { readonly replica: string; readonly state: string }[];
}

let system: System;

beforeAll(async () => {
  system = await startSystem({
    pluginHosts: 2,
    plugins: async (root) => {
      await writePlugin(root, '10-stays', { source: guard('10-stays') });
      await writePlugin(root, '20-goes', { source: guard('20-goes') });
    },
  });
}, START_MS);
afterAll(async () => {
  await system?.stop();
  await expectNoLeftovers();
});

const listed = async () => (await system.api<{ items: Listed[] }>('GET', '/v1/plugins')).body.items;

/** State of the plugin on every plugin-host, and whether it counts as disabled. */
async function stateOf(name: string) {
  const plugin = (await listed()).find((one) => one.name === name);
  return { disabled: plugin?.disabled, states: plugin?.replicas.map(({ state }) => state) };
}

const becomes = (name: string, disabled: boolean, state: string) =>
  eventually(async () => expect(await stateOf(name)).toEqual({ disabled, states: [state, state] }), {
    timeoutMs: 60_000,
    what: `${name} to be ${state} on both plugin-hosts`,
  });

/** Plugins that were asked in four runs with a tool call each, so that either plugin-host has its turn. */
async function asked(): Promise<Set<string>> {
  const names = new Set<string>();
  for (let run = 0; run < 4; run += 1) {
    const end = await system.runToEnd(fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'done' }));
    expect(end.status).toBe('completed');
    const { body } = await system.api<{ items: { hook: string }[] }>('GET', `/v1/runs/${end.id}/hooks`);
    for (const { hook } of body.items) names.add(hook);
  }
  return names;
}

it('a disabled plugin is asked nothing by any plugin-host, also when all have restarted, until it is enabled', async () => {
  await becomes('20-goes', false, 'ready');
  expect(await asked()).toEqual(new Set(['10-stays', '20-goes']));

  expect(await system.api('POST', '/v1/plugins/20-goes/disable', { reason: 'maintenance' })).toMatchObject({
    status: 200,
    body: { disabled: true, refreshed: 2 },
  });
  await becomes('20-goes', true, 'disabled');
  expect(await asked()).toEqual(new Set(['10-stays']));

  for (let host = 0; host < 2; host += 1) {
    await system.pluginHosts.at(-2)?.stop();
    await system.startPluginHost();
    // Its gateways and runners have to have found it before the other one goes.
    await becomes('10-stays', false, 'ready');
  }
  await becomes('20-goes', true, 'disabled');
  expect(await asked()).toEqual(new Set(['10-stays']));

  expect(await system.api('POST', '/v1/plugins/20-goes/enable', {})).toMatchObject({ status: 200 });
  await becomes('20-goes', false, 'ready');
  await eventually(async () => expect(await asked()).toEqual(new Set(['10-stays', '20-goes'])), {
    timeoutMs: 60_000,
    what: 'the plugin to be asked again',
  });
}, 240_000);
