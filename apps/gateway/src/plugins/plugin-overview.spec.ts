import type { PortSummary } from '@codedock/plugin-bridge';
import { gate } from '@codedock/proto';
import { chainOf, pluginsOf } from './plugin-overview.js';

const status = (fields: Partial<gate.PluginStatus>) => gate.PluginStatus.fromPartial({ name: 'policy', ...fields });
const replica = (name: string, fields: Partial<gate.PluginStatus>) => ({
  replica: name,
  ok: true as const,
  value: [status(fields)],
});

describe('plugins over all replicas', () => {
  it('are shown in their worst state, with what each replica has to say', () => {
    const shown = pluginsOf(
      [
        replica('a:1', { state: 'ready', droppedEvents: 7 }),
        replica('b:1', { state: 'failed', reason: 'exit code 1' }),
        { replica: 'c:1', ok: false, code: 14, message: 'gone' },
      ],
      ['absent'],
    );
    expect(shown).toMatchObject([
      {
        name: 'policy',
        state: 'failed',
        reason: 'exit code 1',
        replicas: [
          { replica: 'a:1', state: 'ready', droppedEvents: 7 },
          { replica: 'b:1', state: 'failed', droppedEvents: 0 },
        ],
      },
      { name: 'absent', state: 'disabled', replicas: [] },
    ]);
  });
});

describe('the explanation of the chain', () => {
  const subscriber = (plugin: string, shadow = false): PortSummary['subscribers'][number] => ({
    plugin,
    version: '',
    ready: true,
    required: true,
    failurePolicy: 'closed',
    match: '',
    shadow,
  });
  const warnings = (port: PortSummary['port'], ...subscribers: PortSummary['subscribers']) =>
    chainOf(
      {
        readiness: () => ({ ready: true, reason: '' }),
        differences: () => [],
        ports: () => [{ port, subscribers, budgetMs: 2_000, failurePolicy: 'closed' }],
      },
      { epoch: 1, disabled: [] },
    ).warnings;

  it.each(['agent/input', 'agent/pre-step', 'tools/pre-execute'] as const)(
    'warns at %s, where a later plugin may change what an earlier one has judged',
    (port) => {
      expect(warnings(port, subscriber('first'), subscriber('second'))).toEqual([
        expect.stringMatching(`^${port}: second may change what first has judged`),
      ]);
      expect(warnings(port, subscriber('first'), subscriber('watcher', true))).toEqual([]);
    },
  );

  it('says where plugin-hosts differ, and takes two versions of a plugin for one place of the chain', () => {
    const replicas = (one: string, other?: string) => [
      { replica: 'a:1', version: one },
      { replica: 'b:1', ...(other === undefined ? {} : { version: other }) },
    ];
    const { warnings: said } = chainOf(
      {
        readiness: () => ({ ready: true, reason: '' }),
        ports: () => [
          {
            port: 'agent/input',
            subscribers: [subscriber('guard'), subscriber('guard')],
            budgetMs: 2_000,
            failurePolicy: 'closed',
          },
        ],
        differences: () => [
          { port: 'agent/input', plugin: 'guard', replicas: replicas('1.0.0', '2.0.0') },
          { port: 'agent/input', plugin: 'guard', replicas: replicas('1.0.0', '1.0.0') },
          { port: 'agent/input', plugin: 'new', replicas: replicas('1.0.0') },
        ],
      },
      { epoch: 1, disabled: [] },
    );
    expect(said).toEqual([
      expect.stringMatching(/^agent\/input: plugin-hosts differ in guard: 1\.0\.0 on a:1, 2\.0\.0 on b:1\./),
      expect.stringMatching(/^agent\/input: plugin-hosts differ in guard \(other code, configuration or settings\)/),
      expect.stringMatching(/^agent\/input: plugin-hosts differ in new: 1\.0\.0 on a:1, not asked on b:1\./),
    ]);
  });

  it('does not where nothing is vetoed', () => {
    expect(warnings('agent/request', subscriber('first'), subscriber('second'))).toEqual([]);
  });
});
