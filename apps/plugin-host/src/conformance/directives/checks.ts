import { randomUUID } from 'node:crypto';
import type { JsonObject, JsonValue } from '@codedock/domain';
import { decisionOfAnswer } from '@codedock/plugin-bridge';
import { plugin } from '@codedock/proto';
import { GrpcLink } from '../../process/grpc-link.js';
import type { Check } from '../check.js';
import { requireEqual } from '../difference.js';
import { call } from '../events.js';
import type { Specimen } from '../specimen.js';
import type { Called, Directive, HostCall } from './directive.js';
import { requireRow, told } from './gate-row.js';
import { rows } from './rows.js';

/** What a plugin's manifest names among its capabilities to say that it does what directives tell it to. */
export const directivesCapability = 'conformance-directives';

const event = call({ command: 'ls' });
const toolMs = 60_000;
const shortMs = 1_000;
const pageOfText = 300 * 1024;

/** What a plugin must do that follows directives: every decision of every gate, call-backs, its tool, cancel and crash. */
export function directiveChecks(specimen: Specimen): readonly Check[] {
  return [
    ...rows.map((row): Check => ({ about: 'table', title: row.title, run: (stand) => requireRow(stand, row) })),
    ...callBackChecks(specimen),
    ...behaviourChecks,
    ...toolChecks,
    printCheck,
    crashCheck,
  ];
}

async function ask(specimen: Specimen, directive: Directive, options: Parameters<typeof told>[4] = {}) {
  const { sent, answer } = await told(specimen, 'tools/pre-execute', event, directive, options);
  const site = { tenantId: 'tenant', sessionId: sent.sessionId, runId: sent.runId };
  const clock = { now: () => Date.now() };
  const judged = decisionOfAnswer('tools/pre-execute', sent, answer, event, { site, clock });
  return { ...judged, sent, outcome: answer.outcomes[0]?.outcome, reason: answer.outcomes[0]?.reason };
}

/** Every call of the host with what it must give: gRPC status and text. */
function callsOf(name: string, transport: 'grpc' | 'stdio'): (readonly [HostCall, number, RegExp])[] {
  const everywhere: (readonly [HostCall, number, RegExp])[] = [
    [{ method: 'MemoryUpsert', name: 'näme', text: 'stored 🦫' }, 0, /^$/],
    [{ method: 'MemoryGet', name: 'näme' }, 0, /^stored 🦫$/],
    [{ method: 'MemoryGet', name: 'absent' }, 5, /there is no memory|nothing is stored/],
    [{ method: 'AppendNotice', text: 'a notice 🦫' }, 0, /^$/],
    [{ method: 'RegisterMethod', name: 'ping', text: 'x', value: { type: 'object' } }, 6, /"ping" is a built-in/],
    [{ method: 'RegisterMethod', name: `${name}_second`, text: 'x', value: { type: 'object' } }, 0, /^$/],
    [{ method: 'MemoryGet', name: 'näme', session: 'of somebody else' }, 7, /no call to this plugin is open/],
    [{ method: 'Complete', name: 'prömpt', text: 'text' }, 0, /^prömpt: text$/],
    [{ method: 'SetSetting', name: 'k', value: { ü: [1, null] } }, 0, /^$/],
    [{ method: 'GetSetting', name: 'k' }, 0, /^\{"ü":\[1,null\]\}$/],
    [{ method: 'SetSecret', name: 'k', text: 'gehéim' }, 0, /^$/],
    [{ method: 'GetSecret', name: 'k' }, 0, /^gehéim$/],
    [{ method: 'ListModels' }, 0, /^openai\/a,fake$/],
  ];
  if (transport === 'stdio') return everywhere;
  return [
    ...everywhere,
    [{ method: 'Emit', name: 'interop.told', value: { n: 1 } }, 0, /^$/],
    [{ method: 'Emit', name: 'run.started', value: {} }, 3, /"run.started" is a name of the product/],
    [{ method: 'SetActiveTools', text: 'ping,shell' }, 0, /^$/],
    [{ method: 'GetActiveTools' }, 0, /^ping,shell$/],
    [{ method: 'GetSystemPrompt' }, 0, /^Sei höflich\.$/],
  ];
}

function callBackChecks(specimen: Specimen): Check[] {
  const { name, transport } = specimen.plugin;
  const expected = callsOf(name, transport);
  return [
    {
      about: 'call-backs',
      title: 'makes every call of the host, and is told of every refusal',
      async run(stand) {
        const { patch, sent } = await ask(stand, { calls: expected.map(([one]) => one) });
        const called = patch?.set['called'] as unknown as Called[] | undefined;
        const wanted = expected.map(([, code, text]) => ({ code, text }));
        requireEqual(wanted, called, 'called');
        requireEqual('stored 🦫', await stand.remembered(sent.sessionId, 'näme'), 'the memory');
        if (!stand.notices.includes('a notice 🦫')) throw new Error('the notice did not arrive');
        const registered = stand.plugin.tools.some((tool) => tool.name === `${name}_second`);
        if (!registered) throw new Error('the tool was not registered');
      },
    },
    {
      about: 'call-backs',
      title: 'calls the host back where there is no run yet',
      async run(stand) {
        const calls: HostCall[] = [{ method: 'MemoryUpsert', name: 'early', text: 'x' }];
        const { sent } = await told(stand, 'agent/input', { content: 'x' }, { calls });
        requireEqual('x', await stand.remembered(sent.sessionId, 'early'), 'the memory');
      },
    },
    {
      about: 'call-backs',
      title: 'calls the host back while it is told of events',
      async run(stand) {
        const sessionId = randomUUID();
        for (const type of ['run.started', 'tool.execution_result']) {
          const payload = Buffer.from('{"callId":"c","text":"ü🦫"}');
          const told = plugin.Envelope.fromPartial({ type, sessionId, runId: randomUUID(), payload });
          await stand.plugin.notify(told, toolMs);
          await untilRemembered(stand, sessionId, `noticed ${type}`, '{"callId":"c","text":"ü🦫"}');
        }
      },
    },
  ];
}

async function untilRemembered(stand: Specimen, sessionId: string, name: string, text: string): Promise<void> {
  let found: string | undefined;
  const look = async () => {
    found = await stand.remembered(sessionId, name);
  };
  await look();
  await stand.until(() => {
    void look();
    return found !== undefined;
  }, `the memory "${name}"`);
  requireEqual(JSON.parse(text), JSON.parse(found ?? 'null'), name);
}

const behaviourChecks: readonly Check[] = [
  {
    about: 'log',
    title: 'logs with fields',
    async run(stand) {
      await ask(stand, { log: 'logged 🦫' });
      await stand.until(() => stand.hasLogged('logged 🦫', { answer: 42 }), 'the line with its field');
    },
  },
  {
    about: 'errors',
    title: 'tells the text of an error',
    async run(stand) {
      const { decision, outcome, reason } = await ask(stand, { fail: 'the handler fäiled' });
      requireEqual('could_not_ask', decision.kind, 'the decision');
      requireEqual('error', outcome, 'the outcome');
      requireEqual(/the handler fäiled/, reason, 'the reason');
    },
  },
  {
    about: 'cancel',
    title: 'feels a cancelled gate',
    async run(stand) {
      const abort = new AbortController();
      const mark = randomUUID();
      const asked = ask(stand, { hang: mark }, { signal: abort.signal });
      await stand.until(() => stand.hasLogged('hangs', { mark }), 'the question to hang');
      abort.abort();
      await asked;
      await stand.until(() => stand.hasLogged('cancelled', { mark }), 'the cancel to reach the handler');
    },
  },
  {
    about: 'cancel',
    title: 'feels a gate that took too long',
    async run(stand) {
      const mark = randomUUID();
      const { decision } = await ask(stand, { hang: mark }, { budgetMs: shortMs });
      requireEqual('gate_timeout', Reflect.get(decision, 'code'), 'the failure');
      await stand.until(() => stand.hasLogged('cancelled', { mark }), 'the cancel to reach the handler');
    },
  },
];

interface Executed {
  readonly outcome: string;
  readonly success: boolean;
  readonly output: JsonValue;
  readonly error: string;
}

async function execute(stand: Specimen, args: JsonObject, signal?: AbortSignal): Promise<Executed> {
  const input = plugin.MethodInput.fromPartial({
    sessionId: randomUUID(),
    runId: randomUUID(),
    turnId: randomUUID(),
    callId: 'call-1',
    name: `${stand.plugin.name}_tool`,
    arguments: Buffer.from(JSON.stringify(args)),
    idempotencyKey: 'key-1',
    attempt: 3,
  });
  const { outcome, result } = await stand.plugin.executeTool(input, toolMs, signal);
  const output = result.output.length === 0 ? null : (JSON.parse(result.output.toString('utf8')) as JsonValue);
  return { outcome, success: result.success, output, error: result.error };
}

function executes(kind: string, text: string): Check {
  return {
    about: 'tool',
    title: `executes with ${kind}, and calls back`,
    async run(stand) {
      const calls: HostCall[] = [
        { method: 'MemoryUpsert', name: 'of a tool', text: 'x' },
        { method: 'MemoryGet', name: 'of a tool' },
      ];
      const args = { text, list: [1.5, null], directive: { calls } } as unknown as JsonObject;
      const called = [
        { code: 0, text: '' },
        { code: 0, text: 'x' },
      ];
      const output = { arguments: args, called, call_id: 'call-1', idempotency_key: 'key-1', attempt: 3 };
      requireEqual({ outcome: 'answered', success: true, output, error: '' }, await execute(stand, args), 'the result');
    },
  };
}

const toolChecks: readonly Check[] = [
  {
    about: 'tool',
    title: 'is offered as it was registered',
    async run({ plugin: { name, tools } }) {
      const tool = tools.find((one) => one.name === `${name}_tool`);
      if (tool === undefined) throw new Error(`it registered no tool ${name}_tool`);
      const { prompt, requiresApproval, effectClass, parametersSchema } = tool;
      requireEqual(
        { prompt: 'Does what its argument says.', requiresApproval: true, effectClass: 'effectful' },
        { prompt, requiresApproval, effectClass },
        'the tool',
      );
      const schema = { type: 'object', properties: { directive: { type: 'object' } } };
      requireEqual(schema, JSON.parse(parametersSchema.toString('utf8')), 'the schema');
    },
  },
  executes('every kind of character', 'ü 🦫 <&>'),
  executes('3 MiB', 'wörd <td>1</td> 🦫 & '.repeat(130_000)),
  {
    about: 'tool',
    title: 'fails with its text',
    async run(stand) {
      const { success, error } = await execute(stand, { directive: { fail: 'no sück file' } });
      requireEqual({ success: false, error: 'no sück file' }, { success, error }, 'the result');
    },
  },
  {
    about: 'tool',
    title: 'feels a cancel',
    async run(stand) {
      const abort = new AbortController();
      const mark = randomUUID();
      const executing = execute(stand, { directive: { hang: mark } }, abort.signal);
      await stand.until(() => stand.hasLogged('hangs', { mark }), 'the tool to hang');
      abort.abort();
      requireEqual('cancelled', (await executing).outcome, 'the outcome');
      await stand.until(() => stand.hasLogged('cancelled', { mark }), 'the cancel to reach the handler');
    },
  },
];

/** After the others that read the log: the host takes only so much of it in a second. */
const printCheck: Check = {
  about: 'log',
  title: 'prints into the log of the host, and is not blocked by printing',
  skipped: ({ plugin: { generation } }) =>
    generation?.connection instanceof GrpcLink && generation.connection.takesPrints
      ? undefined
      : 'what it prints has no way to the host',
  async run(stand) {
    await ask(stand, { print: 'printed 🦫' });
    await stand.until(() => stand.hasLogged('printed 🦫'), 'the printed line');
    const { decision } = await ask(stand, { print: 'x'.repeat(pageOfText) });
    requireEqual({ kind: 'proceed' }, decision, 'the decision');
  },
};

const crashCheck: Check = {
  about: 'crash',
  title: 'its last words are told when it dies while it is asked',
  endsProcess: true,
  async run(stand) {
    const { decision, outcome, reason } = await ask(stand, { panic: 'all is lost' });
    requireEqual('could_not_ask', decision.kind, 'the decision');
    requireEqual('crashed', outcome, 'the outcome');
    requireEqual(/exit code 2.*panic: all is lost/s, reason, 'the reason');
  },
};
