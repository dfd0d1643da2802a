import type { GateCall, JsonObject, ScratchpadPatch, ToolDefinition, ToolInvocation } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import {
  type Called,
  type Directive,
  difference,
  type HostCall,
  namedBy,
  parsedBody,
  type Row,
  rows,
} from '@codedock/plugin-host';
import { eventually, expectNoLeftovers } from '@codedock/testkit';
import { IN_PROCESS, inProcessHooks } from './in-process-hooks.js';
import { describePeer, go, ndjson, oldGo, type Peer, python, typescript } from './peers.js';
import { gateCall, type PluginHostUnderTest, patient, START_MS, startPluginHost } from './plugin-host.js';

const ROW_MS = 60_000;

afterAll(() => expectNoLeftovers());

describe('in-process hooks', () => {
  it.each(rows)('$title', (row) => expectRow(row, inProcessHooks, IN_PROCESS), ROW_MS);
});

describe('plugins with AutoMTLS', () => {
  describe('typescript', () => conforms(typescript));
  describePeer('go', go, (peer) => conforms(peer));
  describePeer('python', python, (peer) => conforms(peer));
});

describe('plugins without TLS', () => {
  describe('typescript', () => conforms(typescript, { autoMtls: false }));
  describePeer('go', go, (peer) => conforms(peer, { autoMtls: false }));
  describePeer('go on go-plugin 1.0.1', oldGo, (peer) => conforms(peer, { autoMtls: false }));
  describePeer('python', python, (peer) => conforms(peer, { autoMtls: false }));
});

describe('plugins over NDJSON', () => {
  describePeer('python', ndjson, (peer) => conforms(peer));
});

/** Puts the table, the call-backs, the tool and the endings to one plugin. */
function conforms(peer: Peer, pluginJson: object = {}): void {
  const { name } = peer;
  let host: PluginHostUnderTest;
  beforeAll(async () => {
    host = await startPluginHost((root) => peer.install(root, name, { ...patient, ...pluginJson }));
  }, START_MS);
  afterAll(() => host?.close(), START_MS);

  const logged = (message: string, fields: object) =>
    eventually(() => expect(host.logged(name)).toContainEqual(expect.objectContaining({ msg: message, ...fields })));

  it.each(rows)('$title', (row) => expectRow(row, host.hosts.hooks(), name), ROW_MS);

  it('calls the host back, and every refusal is told', async () => {
    const all: readonly (readonly [HostCall, number, RegExp])[] = [
      [{ method: 'MemoryUpsert', name: 'näme', text: 'stored 🦫' }, 0, /^$/],
      [{ method: 'MemoryGet', name: 'näme' }, 0, /^stored 🦫$/],
      [{ method: 'MemoryGet', name: 'absent' }, 5, /nothing is stored/],
      [{ method: 'AppendNotice', text: 'a notice 🦫' }, 0, /^$/],
      [{ method: 'Emit', name: 'interop.told', value: { n: 1 } }, 0, /^$/],
      [{ method: 'Emit', name: 'run.started', value: {} }, 3, /"run.started" is a name of the product/],
      [{ method: 'RegisterMethod', name: 'ping', text: 'x', value: { type: 'object' } }, 6, /"ping" is a built-in/],
      [{ method: 'RegisterMethod', name: `${name}_second`, text: 'x', value: { type: 'object' } }, 0, /^$/],
      [{ method: 'MemoryGet', name: 'näme', session: 'of somebody else' }, 7, /no call to this plugin is open/],
      [{ method: 'Complete', name: 'prömpt', text: 'text' }, 0, /^prömpt: text$/],
      [{ method: 'GetActiveTools' }, 0, /ping/],
      [{ method: 'SetActiveTools', text: 'ping,shell' }, 0, /^$/],
      [{ method: 'GetActiveTools' }, 0, /^ping,shell$/],
      [{ method: 'GetSystemPrompt' }, 0, /^Sei höflich\.$/],
      [{ method: 'SetSetting', name: 'k', value: { ü: [1, null] } }, 0, /^$/],
      [{ method: 'GetSetting', name: 'k' }, 0, /^\{"ü":\[1,null\]\}$/],
      [{ method: 'SetSecret', name: 'k', text: 'gehéim' }, 0, /^$/],
      [{ method: 'GetSecret', name: 'k' }, 0, /^gehéim$/],
      [{ method: 'ListModels' }, 0, /^openai\/a,fake$/],
    ];
    const expected = all.filter(([{ method }]) => !peer.without?.includes(method));
    const calls = expected.map(([call]) => call);
    const asked = gateCall({ directive: { calls } as unknown as JsonObject });
    await host.hosts.hooks().beforeToolCall?.(toolEvent, asked.call);
    const called = asked.patches[0]?.set['called'] as unknown as Called[];
    expect(called).toEqual(expected.map(([, code, text]) => ({ code, text: expect.stringMatching(text) })));
    const { sessionId } = asked.call.site;
    expect(host.hostApi.memory.get(`${sessionId} näme`)).toBe('stored 🦫');
    expect(host.hostApi.notices).toContain('a notice 🦫');
    expect(host.hostApi.callBacks).toContainEqual({ method: 'AppendNotice', plugin: name, session: sessionId });
    await eventually(() => host.hosts.tools(asked.call.principal).some((tool) => tool.name === `${name}_second`));
  });

  it('calls the host back where there is no run yet', async () => {
    const asked = gateCall(
      { directive: { calls: [{ method: 'MemoryUpsert', name: 'early', text: 'x' }] } },
      { withoutRun: true },
    );
    await host.hosts.hooks().beforeInput?.({ content: 'x' }, asked.call);
    expect(asked.patches[0]?.set['called']).toEqual([{ code: 0, text: '' }]);
  });

  it('is told of ledger events, and may call back meanwhile', async () => {
    const { call } = gateCall();
    const { site, principal } = call;
    const { sessionId, runId = '', turnId = '' } = site;
    const hooks = host.hosts.hooks();
    hooks.onRunStart?.({ sessionId, runId }, call);
    const started = { sessionId, runId, turnId, call: { id: 'c', name: 'shell', arguments: { ü: 1 } }, n: 1 };
    hooks.onToolExecutionStart?.(started, call);
    host.hosts.notify({ type: 'tool.execution_result', payload: { callId: 'c', text: 'ü🦫' }, site, principal });
    const noticed = (event: string) => JSON.parse(host.hostApi.memory.get(`${sessionId} noticed ${event}`) ?? 'null');
    await eventually(() => {
      expect(noticed('run.started')).toEqual({});
      expect(noticed('tool.execution_started')).toEqual({ callId: 'c', tool: 'shell', n: 1, arguments: { ü: 1 } });
      expect(noticed('tool.execution_result')).toEqual({ callId: 'c', text: 'ü🦫' });
    });
  });

  it('logs into the log of the host, with fields', async () => {
    await put({ log: 'logged 🦫' });
    await logged('logged 🦫', { plugin_fields: expect.objectContaining({ answer: 42 }) });
  });

  it('fails by itself: the text of the error is told', async () => {
    const { decision, records } = await put({ fail: 'the handler fäiled' });
    expect(decision).toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable', by: name });
    expect(records).toEqual([
      expect.objectContaining({ hook: name, outcome: 'error', reason: expect.stringContaining('the handler fäiled') }),
    ]);
  });

  it('feels a cancelled gate', async () => {
    const abort = new AbortController();
    const mark = `gate ${name}`;
    const asked = put({ hang: mark }, { signal: abort.signal });
    await logged('hangs', { plugin_fields: expect.objectContaining({ mark }) });
    abort.abort();
    expect((await asked).decision).toMatchObject({ kind: 'could_not_ask' });
    await logged('cancelled', { plugin_fields: expect.objectContaining({ mark }) });
  });

  it('feels a gate that took too long', async () => {
    const mark = `late ${name}`;
    const hosts = host.connect(1_000);
    await eventually(() => hosts.readiness().ready);
    const { decision } = await put({ hang: mark }, { hooks: hosts.hooks() });
    expect(decision).toMatchObject({ kind: 'could_not_ask', code: 'gate_timeout', by: name });
    await logged('cancelled', { plugin_fields: expect.objectContaining({ mark }) });
  });

  describe('its tool', () => {
    const tool = (): ToolDefinition => {
      const found = host.hosts.tools(gateCall().call.principal).find((one) => one.name === `${name}_tool`);
      if (found === undefined) throw new Error(`${name}_tool is not offered`);
      return found;
    };
    const execute = (args: JsonObject, signal = new AbortController().signal) => {
      const { site, principal } = gateCall().call;
      const { tenantId, sessionId, runId = '', turnId = '' } = site;
      const invocation: ToolInvocation = {
        tool: tool(),
        callId: 'call-1',
        arguments: args,
        n: 3,
        idempotencyKey: 'key-1',
        tenantId,
        sessionId,
        runId,
        turnId,
        principal,
      };
      return host.hosts.executeTool(invocation, signal);
    };

    it('is offered as it was registered', () => {
      expect(tool()).toMatchObject({
        description: 'Does what its argument says.',
        parameters: { type: 'object', properties: { directive: { type: 'object' } } },
        requiresApproval: true,
        effect: 'effectful',
        timeoutMs: 60_000,
        plugin: name,
      });
    });

    it.each([
      ['text', 'ü 🦫 <&>'],
      ['3 MiB', 'wörd <td>1</td> 🦫 & '.repeat(130_000)],
    ])(
      'executes with %s and calls back',
      async (_, text) => {
        const calls: HostCall[] = [
          { method: 'MemoryUpsert', name: 'of a tool', text: 'x' },
          { method: 'MemoryGet', name: 'of a tool' },
        ];
        const args = { text, list: [1.5, null], directive: { calls } } as unknown as JsonObject;
        expect(await execute(args)).toEqual({
          kind: 'result',
          source: 'tool',
          result: {
            success: true,
            output: {
              arguments: args,
              called: [
                { code: 0, text: '' },
                { code: 0, text: 'x' },
              ],
              call_id: 'call-1',
              idempotency_key: 'key-1',
              attempt: 3,
            },
          },
        });
      },
      ROW_MS,
    );

    it('fails', async () => {
      expect(await execute({ directive: { fail: 'no sück file' } })).toEqual({
        kind: 'result',
        source: 'tool',
        result: { success: false, output: null, error: 'no sück file' },
      });
    });

    it('feels a cancel', async () => {
      const abort = new AbortController();
      const mark = `tool ${name}`;
      const executing = execute({ directive: { hang: mark } }, abort.signal);
      await logged('hangs', { plugin_fields: expect.objectContaining({ mark }) });
      abort.abort();
      expect(await executing).toMatchObject({ kind: 'unknown' });
      await logged('cancelled', { plugin_fields: expect.objectContaining({ mark }) });
    });
  });

  if (peer.printsArrive) {
    it('prints into the log of the host, and is not blocked by printing', async () => {
      await put({ print: 'printed 🦫' });
      await logged('printed 🦫', {});
      const flooded = await put({ print: 'x'.repeat(300 * 1024) });
      expect(flooded.decision).toEqual({ kind: 'proceed' });
    });
  }

  it(
    'dies while it is asked, and comes back',
    async () => {
      const { decision, records } = await put({ panic: 'all is lost' });
      expect(decision).toMatchObject({ kind: 'could_not_ask', code: 'gate_unavailable', by: name });
      expect(records[0]?.reason).toMatch(/exit code 2.*panic: all is lost/);
      await eventually(async () => expect((await put({})).decision).toEqual({ kind: 'proceed' }), {
        timeoutMs: 20_000,
      });
    },
    ROW_MS,
  );

  async function put(
    directive: Directive,
    { signal, hooks = host.hosts.hooks() }: { signal?: AbortSignal; hooks?: Hooks } = {},
  ) {
    const asked = gateCall({ directive: directive as unknown as JsonObject }, signal === undefined ? {} : { signal });
    const decision = await hooks.beforeToolCall?.(toolEvent, asked.call);
    return { decision, records: asked.records };
  }
}

const toolEvent = {
  call: { id: 'call-1', name: 'shell', arguments: { command: 'ls' } },
  tool: { requiresApproval: false, effect: 'effectful' as const },
};

async function expectRow(row: Row, hooks: Hooks, by: string): Promise<void> {
  const before = { directive: row.directive as unknown as JsonObject, gone: 1, kept: 1, untouched: 'ü' };
  const { call, patches, records } = gateCall(before, { withoutRun: row.gate === 'beforeInput' });
  const hook = hooks[row.gate] as ((event: Row['event'], call: GateCall) => unknown) | undefined;
  const decision = parsedBody((await hook?.(row.event, call)) as JsonObject);
  expect(failures(records)).toEqual([]);
  expect(difference(namedBy(row.decision, by), decision)).toBeUndefined();
  expect(patches).toEqual(row.patch === undefined ? [] : [row.patch satisfies ScratchpadPatch]);
}

function failures(records: GateCall['records']): unknown[] {
  return records.filter(({ outcome }) => !/^(continued|changed|handled|blocked|asked|skipped|aborted)$/.test(outcome));
}
