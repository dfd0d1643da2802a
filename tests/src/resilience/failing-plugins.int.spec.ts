import { randomUUID } from 'node:crypto';
import {
  callsTools,
  eventually,
  expectNoLeftovers,
  type RecordingProvider,
  recordingProvider,
  says,
  writePlugin,
} from '@codedock/testkit';
import { type EventView, fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';
import { installShipped } from './shipped-plugin.js';
import { troubleAt, troublemaker } from './trouble.js';

const SECRET = 'AKIAIOSFODNN7EXAMPLE';
/** A gate that hangs is not given up early, milliseconds. */
const PATIENCE_MS = 1_500;

interface AuditRow {
  readonly gate: string;
  readonly hook: string;
  readonly outcome: string;
  readonly reason?: string;
  readonly startedMs: number;
  readonly durationMs: number;
}

let provider: RecordingProvider;
let system: System;

beforeAll(async () => {
  provider = await recordingProvider();
  system = await startSystem({
    plugins: async (root) => {
      await installShipped(root, 'redact');
      await writePlugin(root, 'tools', {
        mode: 'tools',
        tools: [
          { name: 'leak', effect: 'pure', result: { text: `the key is ${SECRET}` } },
          { name: 'stall', outcome: 'hang' },
        ],
      });
      // Given up half a second before its gate is: a busy machine needs more than the host's 100 ms to carry an answer.
      await writePlugin(root, 'slow', {
        source: troublemaker('slow', ['agent/request', 'tools/post-execute']),
        pluginJson: { timeoutMs: 1_500 },
      });
      await writePlugin(root, 'trouble', {
        source: troublemaker('trouble', ['agent/input', 'agent/pre-step', 'tools/pre-execute']),
      });
    },
    agents: [
      {
        name: 'recorded',
        systemPrompt: `Deploy with ${SECRET}.`,
        tools: ['ping'],
        model: { provider: 'openai', name: 'recorded' },
      },
    ],
    runnerEnv: {
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: provider.baseUrl,
      CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
    },
  });
  // What is loaded at first use is loaded now: the limits below are about gates.
  await finished({ content: fakeScript({ toolCalls: [{ name: 'leak' }] }, { text: 'warm' }) });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await provider?.close();
  await expectNoLeftovers();
});

const auditOfRun = async (runId: string) =>
  (await system.api<{ items: AuditRow[] }>('GET', `/v1/runs/${runId}/hooks`)).body.items;
const auditOfSession = async (sessionId: string) =>
  (await system.api<{ items: AuditRow[] }>('GET', `/v1/sessions/${sessionId}/hooks`)).body.items;
const row = (rows: readonly AuditRow[], hook: string, gate: string): AuditRow => {
  const found = rows.find((each) => each.hook === hook && each.gate === gate);
  if (found === undefined) throw new Error(`no ${gate} of ${hook} in ${JSON.stringify(rows)}`);
  return found;
};
const post = (sessionId: string, body: Record<string, unknown>, headers: Record<string, string> = {}) =>
  system.api<Record<string, unknown>>('POST', `/v1/sessions/${sessionId}/runs`, body, { headers });

async function finished(
  body: Record<string, unknown>,
): Promise<{ run: RunView; events: EventView[]; rows: AuditRow[] }> {
  const started = await system.startRun(await system.createSession(), body);
  const run = await system.waitForEnd(started.id);
  return { run, events: await system.events(run.sessionId), rows: await auditOfRun(run.id) };
}

/** Rows of the session in every table that could hold what was said. */
async function storedIn(sessionId: string): Promise<Record<string, number>> {
  const { rows } = await system.db.query(
    `SELECT (SELECT count(*) FROM runs WHERE session_id = $1)::int AS runs,
            (SELECT count(*) FROM messages WHERE session_id = $1)::int AS messages,
            (SELECT count(*) FROM events WHERE session_id = $1)::int AS events`,
    [sessionId],
  );
  return rows[0];
}

describe('a plugin hangs after redact has answered', () => {
  it('agent/request: the provider gets the redacted prompt and messages', async () => {
    provider.otherwise((request) =>
      request.body.includes('"role":"tool"') ? says('done') : callsTools([{ id: 'c1', name: 'leak', arguments: {} }]),
    );
    const before = provider.requests.length;
    const { run, rows } = await finished({
      content: 'deploy it',
      agent: 'recorded',
      ...troubleAt('agent/request', 'hang'),
    });
    expect({ run }).toMatchObject({ run: { status: 'completed', stopReason: 'completed' } });
    const sent = provider.requests.slice(before).map(({ body }) => body.toString('utf8'));
    expect(sent).toHaveLength(2);
    for (const body of sent) {
      expect(body).not.toContain(SECRET);
      expect(body).toContain('Deploy with ');
    }
    expect(row(rows, 'redact', 'transformContext').outcome).toBe('changed');
    const hung = row(rows, 'slow', 'transformContext');
    expect(hung.outcome).toBe('timeout');
  });

  it('tools/post-execute: the redacted result is stored and nothing else', async () => {
    const { run, events, rows } = await finished({
      content: fakeScript({ toolCalls: [{ name: 'leak' }] }, { text: 'seen' }),
      ...troubleAt('tools/post-execute', 'hang'),
    });
    expect(run.status).toBe('completed');
    const result = events.find(({ type }) => type === 'tool.execution_result');
    expect(result?.payload).toMatchObject({ state: 'succeeded', result: { success: true } });
    expect(JSON.stringify(result?.payload)).toContain('the key is ');
    const { rows: texts } = await system.db.query(
      `SELECT (SELECT coalesce(string_agg(m::text, ''), '') FROM messages m WHERE session_id = $1)
           || (SELECT coalesce(string_agg(e::text, ''), '') FROM events e WHERE session_id = $1)
           || (SELECT coalesce(string_agg(t::text, ''), '') FROM tool_calls t WHERE run_id = $2) AS text`,
      [run.sessionId, run.id],
    );
    expect(texts[0].text).toContain('the key is ');
    expect(texts[0].text).not.toContain(SECRET);
    expect(row(rows, 'redact', 'afterToolCall').outcome).toBe('changed');
    expect(row(rows, 'slow', 'afterToolCall').outcome).toBe('timeout');
  });
});

describe('a plugin hangs at a veto port', () => {
  it('agent/input: 503 within the budget, nothing is stored, the idempotency key is free', async () => {
    const session = await system.createSession();
    const key = { 'idempotency-key': randomUUID() };
    const refused = await post(session, { content: `my key is ${SECRET}`, ...troubleAt('agent/input', 'hang') }, key);
    expect(refused.status).toBe(503);
    expect(refused.body).toMatchObject({ code: 'gate_timeout', by: 'trouble' });
    expect(refused.body['detail']).toMatch(/plugin trouble could not be asked/);
    expect(await storedIn(session)).toEqual({ runs: 0, messages: 0, events: 0 });
    const rows = await auditOfSession(session);
    expect(row(rows, 'redact', 'beforeInput').outcome).toBe('changed');
    const hung = row(rows, 'trouble', 'beforeInput');
    expect(hung.outcome).toBe('timeout');
    expect(hung.durationMs).toBeGreaterThan(PATIENCE_MS);
    expect(JSON.stringify(rows)).not.toContain(SECRET);
    const again = await post(session, { content: 'no trouble now' }, key);
    expect(again.status).toBe(201);
    await system.waitForEnd(String(again.body['runId']));
  });

  it('agent/pre-step: the run ends blocked within the budget', async () => {
    const { run, events, rows } = await finished({ content: 'hello', ...troubleAt('agent/pre-step', 'hang') });
    expect(run).toMatchObject({ status: 'blocked', stopReason: 'gate_timeout', by: 'trouble' });
    expect(run.message).toMatch(/plugin trouble could not be asked/);
    expect(events.some(({ type }) => type === 'turn.started')).toBe(false);
    const hung = row(rows, 'trouble', 'beforeRunStart');
    expect(hung.outcome).toBe('timeout');
    expect(hung.durationMs).toBeGreaterThan(PATIENCE_MS);
  });

  it('tools/pre-execute: a failed result of the host within the budget, nothing executed, the model is told', async () => {
    const { run, events, rows } = await finished({
      content: fakeScript({ toolCalls: [{ name: 'leak' }] }, { text: 'told' }),
      ...troubleAt('tools/pre-execute', 'hang'),
    });
    expect(run.status).toBe('completed');
    const result = events.find(({ type }) => type === 'tool.execution_result');
    expect(result?.payload).toMatchObject({
      state: 'failed',
      source: 'host',
      result: { success: false, error: expect.stringMatching(/plugin trouble could not be asked/) },
    });
    expect(events.some(({ type }) => type === 'tool.execution_started')).toBe(false);
    const hung = row(rows, 'trouble', 'beforeToolCall');
    expect(hung.outcome).toBe('timeout');
  });
});

describe('cancel', () => {
  const cancelled = async (body: Record<string, unknown>, until: (event: EventView) => boolean) => {
    const started = await system.startRun(await system.createSession(), body);
    await eventually(async () => (await system.events(started.sessionId)).some(until), { what: 'the run to hang' });
    // The answer itself carries the end: nobody waits for what hangs, which never comes back.
    const answer = await system.api<RunView>('POST', `/v1/runs/${started.id}/cancel`);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ status: 'cancelled', stopReason: 'cancelled' });
    const events = await system.events(started.sessionId);
    expect(events.at(-1)?.type).toBe('run.cancelled');
    return { events, sessionId: started.sessionId };
  };
  const delta = ({ type }: EventView) => type === 'assistant.delta';

  it('ends a run whose model hangs', async () => {
    await cancelled({ content: fakeScript({ text: 'thinking', hang: true }) }, delta);
  });

  it('ends a run whose model hangs and ignores being aborted', async () => {
    const { sessionId } = await cancelled(
      { content: fakeScript({ text: 'thinking', hang: true, ignoreAbort: true }) },
      delta,
    );
    const next = await system.startRun(sessionId, { content: 'still there?' });
    expect((await system.waitForEnd(next.id)).status).toBe('completed');
  });

  it('ends a run whose HTTP provider hangs, and drops the connection', async () => {
    const before = provider.requests.length;
    provider.otherwise(says(['thin', 'king'], { interruption: { afterPieces: 1, by: 'hang' } }));
    await cancelled({ content: 'think', agent: 'recorded' }, delta);
    const request = await provider.waitForRequest(before);
    expect(await request.outcome).toBe('aborted');
  });

  it('ends a run whose effectful tool hangs, and says that its outcome is not known', async () => {
    const { events } = await cancelled({ content: fakeScript({ toolCalls: [{ name: 'stall' }] }) }, ({ type }) =>
      type.startsWith('tool.execution_started'),
    );
    expect(events.filter(({ type }) => type === 'tool.outcome_unknown')).toHaveLength(1);
  });

  it('ends a run whose plugin hangs', async () => {
    const { events } = await cancelled(
      { content: fakeScript({ toolCalls: [{ name: 'leak' }] }), ...troubleAt('tools/pre-execute', 'hang') },
      ({ type }) => type === 'tool.call_started',
    );
    expect(events.some(({ type }) => type === 'tool.execution_started')).toBe(false);
  });
});

describe('a plugin dies in mid-call', () => {
  const back = () =>
    eventually(
      async () => {
        const answer = await system.api<{ ready: boolean; items?: unknown }>('GET', '/v1/plugins/explain');
        return answer.body.ready && (await finished({ content: 'are you back?' })).run.status === 'completed';
      },
      { timeoutMs: 15_000, what: 'the plugin to serve again' },
    );

  it('agent/input: 503 gate_unavailable for its death rather than a time-out, also while it is down; then it serves again', async () => {
    const session = await system.createSession();
    const refused = await post(session, { content: 'x', ...troubleAt('agent/input', 'kill') });
    expect(refused.status).toBe(503);
    expect(refused.body).toMatchObject({ code: 'gate_unavailable', by: 'trouble' });
    const died = row(await auditOfSession(session), 'trouble', 'beforeInput');
    expect(died.outcome).toBe('crashed');
    const down = await post(session, { content: 'x' });
    if (down.status !== 201) expect(down.body).toMatchObject({ code: 'gate_unavailable' });
    expect((await storedIn(session))['runs']).toBe(down.status === 201 ? 1 : 0);
    await back();
  });

  it('agent/pre-step: the run ends blocked, gate_unavailable', async () => {
    const { run, rows } = await finished({ content: 'x', ...troubleAt('agent/pre-step', 'kill') });
    expect(run).toMatchObject({ status: 'blocked', stopReason: 'gate_unavailable', by: 'trouble' });
    expect(row(rows, 'trouble', 'beforeRunStart').outcome).toBe('crashed');
    await back();
  });

  it('tools/pre-execute: a failed result of the host, nothing executed', async () => {
    const { run, events } = await finished({
      content: fakeScript({ toolCalls: [{ name: 'leak' }] }, { text: 'told' }),
      ...troubleAt('tools/pre-execute', 'kill'),
    });
    expect(events.find(({ type }) => type === 'tool.execution_result')?.payload).toMatchObject({
      state: 'failed',
      source: 'host',
    });
    expect(events.some(({ type }) => type === 'tool.execution_started')).toBe(false);
    // The next gate of the run meets the plugin while it starts again; at a rewrite port that is no failure of the run.
    expect(run.status).toBe('completed');
    await back();
  });
});
