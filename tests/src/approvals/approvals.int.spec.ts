import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  eventually,
  expectNoLeftovers,
  repositoryRoot,
  type TemporaryFolder,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { type EventView, fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

/** A policy that asks about large amounts; its second version judges what the first let through. */
const policy = (version: string, judge: string) => `
import { serve } from '@codedock/plugin-sdk';
serve({
  name: 'policy',
  version: '${version}',
  onToolPreExecute(input) {
    const { amount } = input.call.arguments as { amount?: number };
    ${judge}
  },
});
`;
const FIRST = policy('1.0.0', "if (amount !== undefined && amount >= 50) return input.askApproval('a large amount');");
const SECOND = policy(
  '2.0.0',
  `switch (amount) {
    case 2: return input.reply({ arguments: { amount: 20 } });
    case 3: return input.deny('not any more');
    case 4: return input.askApproval('I ask too');
  }`,
);

let folder: TemporaryFolder;
let system: System;

const linesOf = <T>(file: string): T[] => {
  try {
    return readFileSync(path.join(folder.path, file), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as T);
  } catch {
    return [];
  }
};
const effects = () => linesOf<{ args: { amount: number } }>('transfers').map(({ args }) => args);
const effectsOf = (...amounts: number[]) => effects().filter(({ amount }) => amounts.includes(amount));

beforeAll(async () => {
  folder = await temporaryFolder();
  system = await startSystem({
    runnerEnv: { RUNNER_DRAIN_TIMEOUT: '500ms' },
    plugins: async (root) => {
      await writePlugin(root, '10-bank', {
        mode: 'tools',
        tools: [
          {
            name: 'transfer',
            effect: 'effectful',
            requiresApproval: true,
            parameters: {
              type: 'object',
              properties: { amount: { type: 'integer', maximum: 99 } },
              required: ['amount'],
              additionalProperties: false,
            },
            effectFile: path.join(folder.path, 'transfers'),
          },
        ],
      });
      await writePlugin(root, '11-pay', {
        mode: 'tools',
        tools: [
          { name: 'pay', effect: 'effectful', outcome: 'crash-once', effectFile: path.join(folder.path, 'payments') },
        ],
      });
      await writePlugin(root, '20-policy', { source: FIRST });
    },
  });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await folder?.remove();
  await expectNoLeftovers();
});

interface ApprovalView {
  readonly id: string;
  readonly status: string;
  readonly supersedes?: string;
  readonly supersededBy?: string;
  readonly calls: readonly {
    readonly callId: string;
    readonly arguments: unknown;
    readonly decidedBy?: string;
    readonly reasons: readonly { readonly by: string }[];
  }[];
}

const transfer = (amount: number) => ({ toolCalls: [{ name: 'transfer', arguments: { amount } }] });
const start = async (...amounts: number[]) =>
  system.startRun(await system.createSession(), {
    content: fakeScript(...amounts.map(transfer), { text: 'done' }),
  });
async function waiting(run: RunView): Promise<ApprovalView> {
  await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval');
  const { body } = await system.api<{ items: ApprovalView[] }>('GET', `/v1/approvals?status=open&runId=${run.id}`);
  const [approval] = body.items;
  if (approval === undefined) throw new Error('no approval is open');
  return approval;
}
const decide = (approval: ApprovalView, decision: object) =>
  system.api<ApprovalView & { code?: string; errors?: { path: string }[] }>(
    'POST',
    `/v1/approvals/${approval.id}/decisions`,
    { decisions: approval.calls.map(({ callId }) => ({ callId, ...decision })) },
  );
const approve = { decision: 'approve' };
const types = (events: readonly EventView[], prefix = 'tool.') =>
  events.map(({ type }) => type).filter((type) => type.startsWith(prefix));
const audit = async (runId: string) => {
  const { body } = await system.api<{ items: { hook: string; outcome: string; reason?: string; version?: string }[] }>(
    'GET',
    `/v1/runs/${runId}/hooks?limit=200`,
  );
  return body.items;
};

describe('an approval of a plugin’s tool', () => {
  it('with edited arguments: held to the tool’s schema, asked about again, executed as edited', async () => {
    const run = await start(1);
    const approval = await waiting(run);
    expect(await decide(approval, { ...approve, arguments: { amount: 100 } })).toMatchObject({
      status: 422,
      body: { errors: [{ path: '/decisions/0/arguments' }] },
    });
    expect((await decide(approval, { ...approve, arguments: { amount: 60 } })).status).toBe(200);
    // The policy asks about 60, and this approver has answered.
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(effectsOf(1, 60)).toEqual([{ amount: 60 }]);
    // The model reads its own call, with 1, and a result that says what was executed.
    const messages = await system.api<{ items: { content: { output?: unknown } }[] }>(
      'GET',
      `/v1/sessions/${run.sessionId}/messages`,
    );
    expect(messages.body.items.flatMap(({ content }) => ('output' in content ? [content.output] : []))).toEqual([
      { note: expect.stringContaining('{"amount":60}'), output: expect.anything() },
    ]);
    const asked = (await audit(run.id)).filter(({ hook }) => hook.includes('policy') || hook === 'host');
    expect(asked.map(({ outcome }) => outcome)).toEqual(['continued', 'asked', 'continued']);
    expect(asked.at(-1)?.reason).toContain('revalidated');
  }, 30_000);

  it('for the run: meets the tool’s own requirement from then on, and never what a policy asks', async () => {
    const run = await start(5, 6, 70, 7);
    await decide(await waiting(run), { ...approve, scope: 'run' });
    const second = await waiting(run);
    expect(second.calls).toMatchObject([{ arguments: { amount: 70 } }]);
    expect(second.calls[0]?.reasons.map(({ by }) => by).join()).toContain('policy');
    expect(second.calls[0]?.reasons.map(({ by }) => by)).not.toContain('tool');
    expect(effectsOf(5, 6, 7, 70)).toEqual([{ amount: 5 }, { amount: 6 }]);
    await decide(second, approve);
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(effectsOf(7, 70)).toEqual([{ amount: 70 }, { amount: 7 }]);
    const { body } = await system.api<{ items: unknown[] }>('GET', `/v1/sessions/${run.sessionId}/grants`);
    expect(body.items).toMatchObject([{ tool: 'transfer', scope: 'run', runId: run.id }]);
  }, 40_000);

  it('is decided call by call with the command', async () => {
    const codedock = async (...args: string[]) => {
      const main = path.join(repositoryRoot(), 'apps/cli/dist/main.js');
      const env = { ...process.env, CODEDOCK_URL: system.url, CODEDOCK_API_KEY: system.key };
      return (await promisify(execFile)(process.execPath, [main, ...args], { env })).stdout;
    };
    const script = fakeScript({ toolCalls: [transfer(11), transfer(12)].flatMap(({ toolCalls }) => toolCalls) });
    const run = await system.startRun(await system.createSession(), { content: script });
    const approval = await waiting(run);
    const [first, second] = approval.calls.map(({ callId }) => callId);
    expect(await codedock('approvals', 'list')).toContain(second);
    const edit = ['--call', `${first}`, '--approve', '--edit', '{"amount": 13}', '--scope', 'run'];
    expect(await codedock('approvals', 'decide', approval.id, ...edit)).toContain('open, 1 approved');
    expect(await codedock('approvals', 'decide', approval.id, '--deny')).toContain('decided, 1 denied');
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(effectsOf(11, 12, 13)).toEqual([{ amount: 13 }]);
    expect(await codedock('tool-calls', 'show', `${second}`)).toContain('denied');
  }, 40_000);

  it('that nobody decides: people are reminded once, then it is denied, and the run goes on', async () => {
    const run = await start(8);
    const approval = await waiting(run);
    await system.db.query("UPDATE approvals SET created_at = created_at - interval '25 hours' WHERE id = $1", [
      approval.id,
    ]);
    const log = () => system.events(run.sessionId);
    await eventually(async () => expect(types(await log())).toContain('tool.approval_reminder'));
    await system.db.query("UPDATE approvals SET expires_at = now() - interval '1 second' WHERE id = $1", [approval.id]);
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    const events = await log();
    expect(types(events)).toEqual([
      'tool.call_started',
      'tool.approval_required',
      'tool.approval_reminder',
      'tool.approval_decided',
      'tool.execution_result',
    ]);
    expect(events.find(({ type }) => type === 'tool.execution_result')?.payload).toMatchObject({
      state: 'denied',
      source: 'host',
      by: 'host',
      result: { output: 'Denied: Nobody decided before the approval expired.' },
    });
    expect(effectsOf(8)).toEqual([]);
    expect((await decide(approval, approve)).body.code).toBe('approval_decided');
  }, 40_000);
});

describe('a call whose plugin died in it', () => {
  interface Call {
    readonly id: string;
    readonly name: string;
    readonly state: string;
    readonly settledBy?: string;
    readonly result?: { readonly success: boolean };
  }
  const resolve = (callId: string, outcome: string) =>
    system.api<Call & { code?: string }>('POST', `/v1/tool-calls/${callId}/resolve`, { outcome });
  const callOf = async (run: RunView) => {
    const { body } = await system.api<{ calls: Call[] }>('GET', `/v1/runs/${run.id}/trace`);
    const call = body.calls.find(({ name }) => name === 'pay');
    if (call === undefined) throw new Error('there is no call');
    return call;
  };

  it('is tried again when a person says so, once, under the same key, and the model is told the new result', async () => {
    const script = fakeScript({ toolCalls: [{ name: 'pay' }] }, transfer(9), { text: 'done' });
    const run = await system.startRun(await system.createSession(), { content: script });
    const approval = await waiting(run);
    const { id: callId, state } = await callOf(run);
    expect(state).toBe('unknown');
    expect(await resolve(callId, 'retry')).toMatchObject({ status: 200, body: { state: 'approved' } });
    await eventually(async () => {
      const { body } = await system.api<{ items: { name: string; state: string }[] }>('GET', '/v1/plugins');
      expect(body.items.find(({ name }) => name === '11-pay')?.state).toBe('ready');
    });
    await decide(approval, approve);
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(await callOf(run)).toMatchObject({ state: 'succeeded', result: { success: true } });
    const payments = linesOf<{ callId: string; idempotencyKey: string }>('payments');
    expect(payments.map(({ idempotencyKey }) => idempotencyKey)).toEqual([callId, callId]);
    const log = (await system.events(run.sessionId)).filter(({ payload }) => payload['callId'] === callId);
    expect(types(log)).toEqual([
      'tool.call_started',
      'tool.execution_started',
      'tool.outcome_unknown',
      'tool.execution_retry',
      'tool.execution_started',
      'tool.execution_result',
    ]);
    expect(await resolve(callId, 'happened')).toMatchObject({ status: 409, body: { code: 'conflict' } });
  }, 40_000);
});

it('a policy that is replaced between approval and execution is asked before anything happens', async () => {
  const runs = new Map<number, RunView>();
  for (const amount of [1, 2, 3, 4]) runs.set(amount, await start(amount));
  const of = (amount: number) => runs.get(amount) as RunView;
  const approvals = new Map<number, ApprovalView>();
  for (const [amount, run] of runs) approvals.set(amount, await waiting(run));
  const done = effects().length;
  // Approved while nobody executes; then the plugin-host comes back with another version of the policy.
  for (const runner of system.runners) await runner.stop();
  for (const approval of approvals.values()) await decide(approval, approve);
  await system.pluginHosts[0]?.stop();
  await writePlugin(system.pluginRoot, '20-policy', { source: SECOND });
  await system.startPluginHost();
  await system.startRunner();

  for (const amount of [1, 3, 4]) expect(await system.waitForEnd(of(amount).id, 30_000)).toBeDefined();
  const second = await waiting(of(2));
  expect(effects().slice(done)).toEqual(expect.arrayContaining([{ amount: 1 }, { amount: 4 }]));
  expect(effects()).toHaveLength(done + 2);
  // Proceed, and ask with the same arguments: the approval stands.
  for (const amount of [1, 4]) {
    expect((await audit(of(amount).id)).at(-1)).toMatchObject({
      hook: 'host',
      reason: expect.stringContaining('revalidated'),
    });
  }
  // Blocked: obeyed.
  const blocked = (await system.events(of(3).sessionId)).find(({ type }) => type === 'tool.execution_result');
  expect(blocked?.payload).toMatchObject({ state: 'blocked', source: 'hook' });
  // Changed: a new approval that replaces the first.
  const first = approvals.get(2) as ApprovalView;
  expect(second).toMatchObject({ supersedes: first.id, calls: [{ arguments: { amount: 20 } }] });
  const replaced = await system.api<ApprovalView>('GET', `/v1/approvals/${first.id}`);
  expect(replaced.body.supersededBy).toBe(second.id);
  await decide(second, approve);
  expect(await system.waitForEnd(of(2).id)).toMatchObject({ status: 'completed' });
  expect(effectsOf(2, 20)).toEqual([{ amount: 20 }]);
}, 90_000);
