import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { eventually, expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { describeOnEachProfile } from '../profiles.js';
import { fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

const GATES = {
  'agent/input': 'beforeInput',
  'agent/pre-step': 'beforeRunStart',
  'tools/pre-execute': 'beforeToolCall',
};
type GuardedPort = keyof typeof GATES;

/** Lets everything pass on the given ports. */
const guard = (name: string, version: string, ports: readonly GuardedPort[]) => `
  import { serve } from '@codedock/plugin-sdk';
  const handlers = {
    'agent/input': { onAgentInput: () => undefined },
    'agent/pre-step': { onAgentPreStep: () => undefined },
    'tools/pre-execute': { onToolPreExecute: () => undefined },
  };
  const ports = ${JSON.stringify(ports)};
  serve({ name: ${JSON.stringify(name)}, version: ${JSON.stringify(version)}, ...Object.assign({}, ...ports.map((port) => handlers[port])) });
`;

interface AuditRow {
  readonly gate: string;
  readonly hook: string;
  readonly outcome: string;
  readonly version?: string;
}

interface Explanation {
  readonly ports: { port: string; subscribers: { plugin: string; version?: string; ready: boolean }[] }[];
  readonly warnings: string[];
}

interface Ended {
  readonly run: RunView;
  /** Plugins that the gateway had in its chain on agent/input when the run was asked for. */
  readonly expected: readonly string[];
}

/** Clients that start one run after the other, each with a tool call, until they are told to stop. */
class Load {
  readonly ended: Ended[] = [];
  readonly failures: string[] = [];
  private stopping = false;
  private readonly clients: Promise<void>[];

  constructor(
    private readonly system: System,
    clients: number,
  ) {
    this.clients = Array.from({ length: clients }, () => this.client());
  }

  /** Resolves when so many further runs have ended. */
  async further(count: number): Promise<void> {
    const target = this.ended.length + this.failures.length + count;
    await eventually(() => this.ended.length + this.failures.length >= target, {
      timeoutMs: 120_000,
      what: `${count} further runs to end`,
    });
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.clients);
  }

  private async client(): Promise<void> {
    while (!this.stopping) {
      try {
        const expected = await chainAt(this.system, 'agent/input');
        const run = await this.system.startRun(await this.system.createSession(), {
          content: fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'done' }),
        });
        const end = await this.system.waitForEnd(run.id, 60_000);
        if (end.status !== 'completed') throw new Error(`${end.status} ${end.stopReason}: ${end.message}`);
        this.ended.push({ run: end, expected });
      } catch (error) {
        this.failures.push((error as Error).message);
      }
    }
  }
}

async function explain(system: System): Promise<Explanation> {
  return (await system.api<Explanation>('GET', '/v1/plugins/explain')).body;
}

async function chainAt(system: System, port: string): Promise<string[]> {
  const found = (await explain(system)).ports.find((one) => one.port === port);
  return [...new Set((found?.subscribers ?? []).map(({ plugin }) => plugin))];
}

describeOnEachProfile('two plugin-hosts rolled under load', (profile) => {
  let system: System;
  const rootOf = (name: string) => path.join(path.dirname(system.pluginRoot), name);

  beforeAll(async () => {
    system = await startSystem({
      profile,
      pluginHosts: 2,
      runners: 2,
      plugins: async (root) => {
        await writePlugin(root, '10-guard', {
          source: guard('10-guard', '1.0.0', ['agent/input', 'tools/pre-execute']),
        });
      },
    });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  /** Restarts both hosts one after the other, each when the one before it is ready. */
  async function roll(load: Load, root: string): Promise<void> {
    for (let index = 0; index < 2; index += 1) {
      const at = system.pluginHosts.length - 2;
      await system.pluginHosts[at]?.stop();
      await load.further(1);
      await system.startPluginHost({ CODEDOCK_PLUGIN_DIR: root });
      await load.further(1);
    }
  }

  it('fail no gate and leave none unasked: the same version, a new one, and a port and a plugin more', async () => {
    const load = new Load(system, 2);
    await load.further(1);
    await roll(load, system.pluginRoot);

    await mkdir(rootOf('second'), { mode: 0o755 });
    await writePlugin(rootOf('second'), '10-guard', {
      source: guard('10-guard', '2.0.0', ['agent/input', 'tools/pre-execute']),
    });
    await roll(load, rootOf('second'));

    await mkdir(rootOf('third'), { mode: 0o755 });
    await writePlugin(rootOf('third'), '10-guard', {
      source: guard('10-guard', '3.0.0', ['agent/input', 'agent/pre-step', 'tools/pre-execute']),
    });
    await writePlugin(rootOf('third'), '20-new', {
      source: guard('20-new', '1.0.0', ['agent/input', 'agent/pre-step', 'tools/pre-execute']),
    });
    await system.pluginHosts.at(-2)?.stop();
    await load.further(1);
    await system.startPluginHost({ CODEDOCK_PLUGIN_DIR: rootOf('third') });
    await eventually(async () => expect(await chainAt(system, 'agent/input')).toContain('20-new'), {
      what: 'the gateway to know the new plugin',
    });
    const { warnings, ports } = await explain(system);
    expect(warnings).toEqual(
      expect.arrayContaining([
        expect.stringMatching(
          /^agent\/input: plugin-hosts differ in 10-guard: .*2\.0\.0 on .*3\.0\.0 on |3\.0\.0 on .*2\.0\.0 on /,
        ),
        expect.stringMatching(/^agent\/input: plugin-hosts differ in 20-new: .*not asked on /),
        expect.stringMatching(/^agent\/pre-step: plugin-hosts differ in 10-guard: .*not asked on /),
      ]),
    );
    expect(ports.find(({ port }) => port === 'agent/pre-step')?.subscribers).toMatchObject([
      { plugin: '10-guard', version: '3.0.0' },
      { plugin: '20-new' },
    ]);
    // Old and new side by side, for as long as a roll may take.
    await load.further(3);
    await system.pluginHosts.at(-2)?.stop();
    await load.further(1);
    await system.startPluginHost({ CODEDOCK_PLUGIN_DIR: rootOf('third') });
    await eventually(async () => expect((await explain(system)).warnings.join()).not.toContain('differ'), {
      timeoutMs: 30_000,
      what: 'the hosts to be alike',
    });
    const rolled = load.ended.length;
    await load.further(3);
    await load.stop();

    expect(load.failures).toEqual([]);
    let gates = 0;
    const unasked: string[] = [];
    for (const [at, { run, expected }] of load.ended.entries()) {
      const { body } = await system.api<{ items: AuditRow[] }>('GET', `/v1/runs/${run.id}/hooks`);
      const asked = new Set(body.items.map(({ gate, hook, outcome }) => `${gate} ${hook} ${outcome}`));
      const must = [
        'beforeToolCall 10-guard',
        ...expected.map((plugin) => `beforeInput ${plugin}`),
        // The roll is over: everything is asked everywhere.
        ...(at < rolled + 2 ? [] : Object.values(GATES).flatMap((gate) => [`${gate} 10-guard`, `${gate} 20-new`])),
      ];
      for (const one of must) {
        gates += 1;
        if (!asked.has(`${one} continued`)) unasked.push(`run ${at}: ${one} is not among ${[...asked].join(', ')}`);
      }
    }
    expect(unasked).toEqual([]);
    expect(gates).toBeGreaterThan(2 * load.ended.length - 1);
  }, 400_000);
});
