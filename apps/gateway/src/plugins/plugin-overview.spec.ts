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

  it('does not where nothing is vetoed', () => {
    expect(warnings('agent/request', subscriber('first'), subscriber('second'))).toEqual([]);
  });
});
