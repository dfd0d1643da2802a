import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  type RecordingProvider,
  recordingProvider,
  repositoryRoot,
  says,
  writePlugin,
} from '@codedock/testkit';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';

const SECRETS_KEY = randomBytes(32).toString('hex');
const sourceOf = (name: string) => readFileSync(path.join(repositoryRoot(), 'tests/src/host-api', name), 'utf8');

let provider: RecordingProvider;
let system: System;

beforeAll(async () => {
  provider = await recordingProvider();
  const openai = { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: provider.baseUrl };
  system = await startSystem({
    plugins: async (root) => {
      await writePlugin(root, 'asker', {
        source: sourceOf('asking-plugin.ts'),
        pluginJson: { budgetMs: { 'agent/input': 4_000 } },
      });
      await writePlugin(root, 'listener', { source: sourceOf('listening-plugin.ts') });
    },
    agents: [
      { name: 'default', systemPrompt: 'You are plain.', model: { provider: 'fake', name: 'fake' }, tools: ['ping'] },
      { name: 'poor', model: { provider: 'fake', name: 'fake' }, limits: { maxTokens: 2_500, maxParallelTools: 1 } },
      {
        name: 'http',
        systemPrompt: 'You are http.',
        model: { provider: 'openai', name: 'recorded', maxOutputTokens: 9_000 },
        modes: { cheap: { model: { provider: 'openai', name: 'small' } } },
      },
    ],
    env: openai,
    gatewayEnv: { CODEDOCK_SECRETS_KEY: SECRETS_KEY },
  });
}, START_MS);

afterAll(async () => {
  await system.stop();
  await provider.close();
  await expectNoLeftovers();
});

type Told = Readonly<Record<string, unknown>>;

/** Has the plugin ask the host while it judges an input; answers what the host said. */
async function askAtInput(sessionId: string, told: Told, agent = 'default'): Promise<Told> {
  const content = `ask:${JSON.stringify(told)}`;
  const { status, body } = await system.api('POST', `/v1/sessions/${sessionId}/runs`, { content, agent });
  expect([status, body['code']]).toEqual([403, 'hook_blocked']);
  const said = /\{.*\}/s.exec(String(body['reason'] ?? body['detail']))?.[0];
  return JSON.parse(said ?? '{}') as Told;
}

/** Has the plugin's tool ask the host in a run of the session; answers what the host said, and the run. */
async function askInRun(sessionId: string, told: Told, agent = 'default') {
  const content = fakeScript({ toolCalls: [{ name: 'ask_host', arguments: told }] }, { text: 'done' });
  const started = await system.startRun(sessionId, { content, agent });
  const run = await system.waitForEnd(started.id);
  const events = await system.events(sessionId);
  const result = events.findLast(({ type, runId }) => type === 'tool.execution_result' && runId === run.id);
  const { output: said = {} } = (result?.payload['result'] ?? {}) as { output?: Told };
  return { said, run, events };
}

const usageOf = async (path: string) => (await system.api<{ usage: unknown }>('GET', path)).body.usage;

async function refusals(): Promise<{ actor: string; target: string; detail: { message?: string; reason?: string } }[]> {
  const { rows } = await system.db.query(
    "SELECT actor, target, detail FROM admin_audit WHERE action LIKE '%host_call_refused' ORDER BY id",
  );
  return rows;
}

describe('completions', () => {
  it('at an input use the model that was asked for, pass no gate, and are accounted to the session', async () => {
    const sessionId = await system.createSession();
    provider.script(says('four words are here'));
    const before = provider.requests.length;
    expect(await askAtInput(sessionId, { method: 'complete', prompt: 'Be brief.', text: 'Why?' }, 'http')).toEqual({
      text: 'four words are here',
    });
    expect(provider.requests).toHaveLength(before + 1);
    const body = provider.requests[before]?.json() as Record<string, unknown>;
    expect(body).toMatchObject({
      model: 'recorded',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Why?' },
      ],
    });
    expect(body['max_completion_tokens'] ?? body['max_tokens']).toBe(4_096);
    expect(body['tools'] ?? []).toEqual([]);
    const usage = await usageOf(`/v1/sessions/${sessionId}`);
    expect(usage).toEqual({ inputTokens: expect.any(Number), outputTokens: expect.any(Number) });
    expect((usage as { outputTokens: number }).outputTokens).toBeGreaterThan(0);
    const { rows } = await system.db.query('SELECT DISTINCT gate FROM hook_audit WHERE session_id = $1', [sessionId]);
    expect(rows).toEqual([{ gate: 'beforeInput' }]);
  });

  it('in a run are accounted to it, beside its own model calls', async () => {
    const sessionId = await system.createSession();
    const { said, run, events } = await askInRun(sessionId, { method: 'complete', prompt: '', text: 'a'.repeat(400) });
    expect(said).toEqual({ text: `You said: ${'a'.repeat(400)}` });
    const turns = events.filter(({ type }) => type === 'turn.usage_recorded');
    const ofTurns = turns.reduce(
      (sum, { payload }) => sum + (payload['usage'] as { outputTokens: number }).outputTokens,
      0,
    );
    const usage = (await usageOf(`/v1/runs/${run.id}`)) as { outputTokens: number };
    expect(usage.outputTokens - ofTurns).toBe(Math.ceil(`You said: ${'a'.repeat(400)}`.length / 4));
    expect(events.at(-1)).toMatchObject({ type: 'run.completed', payload: { usage } });
    expect(await usageOf(`/v1/sessions/${sessionId}`)).toEqual({ inputTokens: 0, outputTokens: 0 });
    const { rows } = await system.db.query(
      "SELECT count(*)::int AS asked FROM hook_audit WHERE run_id = $1 AND port = 'agent/request'",
      [run.id],
    );
    expect(rows).toEqual([{ asked: 2 }]);
  });

  it('are refused once the run has used its tokens', async () => {
    const sessionId = await system.createSession();
    const asking = (text: string) => ({ name: 'ask_host', arguments: { method: 'complete', text } });
    const content = fakeScript({ toolCalls: [asking('a'.repeat(3_000)), asking('more')] });
    await system.waitForEnd((await system.startRun(sessionId, { content, agent: 'poor' })).id);
    const results = (await system.events(sessionId)).filter(({ type }) => type === 'tool.execution_result');
    expect(results.map(({ payload }) => (payload['result'] as { output: Told }).output)).toMatchObject([
      { text: expect.stringContaining('You said: aaa') },
      { code: 'RESOURCE_EXHAUSTED', error: expect.stringContaining('used its 2500 tokens') },
    ]);
  });

  it('are cut at the budget of the gate, which still decides', async () => {
    const sessionId = await system.createSession();
    const said = await askAtInput(sessionId, { method: 'complete', text: fakeScript({ hang: true }) });
    expect(said).toMatchObject({ code: 'DEADLINE_EXCEEDED', error: expect.stringContaining('was cut after') });
    expect((await refusals()).at(-1)).toMatchObject({ actor: 'plugin asker', target: 'Complete' });
  });
});

describe('tools of a session', () => {
  it('are those set last, from the next model call on; the profile keeps its own', async () => {
    const sessionId = await system.createSession();
    const offered = async () => {
      const run = await system.startRun(sessionId, { content: 'hello' });
      await system.waitForEnd(run.id);
      const started = (await system.events(sessionId)).findLast(({ type }) => type === 'turn.started');
      return started?.payload['tools'] as string[];
    };
    const all = await offered();
    expect(all).toEqual(expect.arrayContaining(['ping', 'ask_host', 'idle']));
    expect(await askAtInput(sessionId, { method: 'setActive', names: ['ask_host'] })).toEqual({ done: true });
    const left = all.filter((name) => name !== 'idle');
    expect(await offered()).toEqual(left);
    expect(await askAtInput(sessionId, { method: 'active' })).toEqual({ names: left });
    expect(await askAtInput(sessionId, { method: 'setActive', names: ['idle', 'no_such'] })).toMatchObject({
      code: 'INVALID_ARGUMENT',
      error: expect.stringContaining('"no_such"'),
    });
    expect(await offered()).toEqual(left);
    const { said, events, run } = await askInRun(sessionId, { method: 'setActive', names: [] });
    expect(said).toEqual({ done: true });
    const turns = events.filter(({ type, runId }) => type === 'turn.started' && runId === run.id);
    expect(turns.map(({ payload }) => payload['tools'])).toEqual([left, left.filter((name) => name !== 'ask_host')]);
    const { rows } = await system.db.query(
      "SELECT actor, detail FROM admin_audit WHERE action = 'session.active_tools_set' AND target = $1 ORDER BY id",
      [sessionId],
    );
    expect(rows).toEqual([
      { actor: 'plugin asker', detail: { names: ['ask_host'] } },
      { actor: 'plugin asker', detail: { names: [] } },
    ]);
  });
});

describe('prompt and models', () => {
  it('are those of the profile at an input, and of the run as the gate left it inside', async () => {
    const sessionId = await system.createSession();
    expect(await askAtInput(sessionId, { method: 'systemPrompt' }, 'http')).toEqual({ text: 'You are http.' });
    expect(await askAtInput(sessionId, { method: 'models' }, 'http')).toEqual({ models: ['recorded', 'small'] });
    const { said } = await askInRun(sessionId, { method: 'systemPrompt' });
    expect(said['text']).toMatch(/ As the asker says\.$/);
  });
});

describe('settings and secrets', () => {
  const plugin = '/v1/plugins/asker';

  it('set by an administrator are read by the plugin, and the other way round', async () => {
    const sessionId = await system.createSession();
    expect(await askAtInput(sessionId, { method: 'setting', key: 'level' })).toEqual({ value: null });
    await system.api('PUT', `${plugin}/settings/level`, { value: { strict: true }, scope: 'global' });
    expect(await askAtInput(sessionId, { method: 'setting', key: 'level' })).toEqual({ value: { strict: true } });
    expect(await askAtInput(sessionId, { method: 'setSetting', key: 'level', value: 7 })).toEqual({ done: true });
    const { body } = await system.api<{ items: unknown[] }>('GET', `${plugin}/settings`);
    expect(body.items).toMatchObject([
      { key: 'level', scope: 'tenant', value: 7, updatedBy: 'plugin asker' },
      { key: 'level', scope: 'global', value: { strict: true } },
    ]);
  });

  it('reach the plugin from a pipe, and nobody else', async () => {
    const sessionId = await system.createSession();
    const canary = `canary-${randomBytes(12).toString('hex')}`;
    const output = await codedock(['plugins', 'set-secret', 'asker', 'token'], `${canary}\n`);
    expect(output).toBe('plugin asker: the secret token is set\n');
    expect(await codedock(['plugins', 'secrets', 'asker'], '')).toContain('token');
    expect(await askAtInput(sessionId, { method: 'setSecret', key: 'own', value: `${canary}-own` })).toEqual({
      done: true,
    });
    const { said } = await askInRun(sessionId, { method: 'secret', key: 'own' });
    expect(said).toEqual({ value: `${canary}-own` });
    const other = await system.createKey({ tenant: 'elsewhere' });
    const { body } = await system.api<{ items: unknown[] }>('GET', `${plugin}/secrets`, undefined, { key: other });
    expect(body.items).toEqual([]);
    const { rows } = await system.db.query<{ text: string }>(
      'SELECT string_agg(s::text, chr(10)) AS text FROM plugin_secrets s',
    );
    expect(rows[0]?.text).toContain('asker');
    expect(rows[0]?.text).not.toContain(Buffer.from(canary).toString('hex'));
    for (const process of [...system.gateways, ...system.pluginHosts]) expect(process.output()).not.toContain(canary);
  });

  it('of a gateway with another key say so', async () => {
    const gateway = await system.startGateway({ CODEDOCK_SECRETS_KEY: randomBytes(32).toString('hex') });
    expect(gateway.output()).toContain('were stored under a key that is not known now');
  });
});

describe('events between plugins', () => {
  it('reach the others, which act with authority of their own', async () => {
    const sessionId = await system.createSession();
    expect(await askAtInput(sessionId, { method: 'emit', event: 'scan.found', said: 'hello' })).toEqual({ done: true });
    await eventually(
      async () => {
        const notices = (await system.events(sessionId)).filter(({ type }) => type === 'message.notice');
        if (notices.length !== 1) throw new Error(`${notices.length} notices`);
        expect(notices[0]?.payload).toMatchObject({
          plugin: 'listener',
          message: { content: { text: 'heard {"said":"hello"}' } },
        });
      },
      { timeoutMs: 10_000, what: 'the notice of the listener' },
    );
  });

  it.each(['agent/input', 'input/blocked', 'run.started', ''])('cannot be called %j', async (event) => {
    const sessionId = await system.createSession();
    const before = (await refusals()).length;
    expect(await askAtInput(sessionId, { method: 'emit', event })).toMatchObject({ code: 'INVALID_ARGUMENT' });
    await eventually(
      async () => {
        const [row] = (await refusals()).slice(before);
        expect(row).toMatchObject({ target: 'asker', detail: { message: expect.stringContaining('Emit: ') } });
      },
      { what: 'the refusal in the audit' },
    );
  });
});

describe('authority', () => {
  it('ends at the session of the call, and the refusal is in the audit', async () => {
    const [sessionId, other] = [await system.createSession(), await system.createSession()];
    const said = await askAtInput(sessionId, { method: 'notice', session: other, text: 'x' });
    expect(said).toMatchObject({ code: 'PERMISSION_DENIED', error: expect.stringContaining(`session ${other}`) });
    await eventually(
      async () => {
        expect((await refusals()).at(-1)).toMatchObject({ target: 'asker', detail: { sessionId: other } });
      },
      { what: 'the refusal in the audit' },
    );
    expect(await system.events(other)).toEqual([]);
  });
});

/** Runs the command line with something on stdin; answers its stdout. */
async function codedock(args: string[], input: string): Promise<string> {
  const child = spawn(process.execPath, [path.join(repositoryRoot(), 'apps/cli/dist/main.js'), ...args], {
    env: { PATH: process.env['PATH'], CODEDOCK_URL: system.url, CODEDOCK_API_KEY: system.key },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(input);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  expect(code).toBe(0);
  return output;
}
