import { expectNoLeftovers } from '@codedock/testkit';
import { fakeScript, type RunView, type System, startSystem } from '../system.js';
import { asked, countRows, hookRecords, messages, tell, writePolicy } from './policies.js';

const HANGING = fakeScript({ hang: true });

let system: System;

beforeAll(async () => {
  system = await startSystem({
    plugins: async (root) => {
      await writePolicy(root, '05-impatient', {
        ports: ['agent/input'],
        timeoutMs: 500,
        match: { agents: ['watched'] },
      });
      await writePolicy(root, '10-first', { ports: ['agent/input'] });
      await writePolicy(root, '20-second', { ports: ['agent/input'] });
    },
    runnerEnv: { RUNNER_DRAIN_TIMEOUT: '1s' },
    agents: [
      { name: 'watched', model: { provider: 'fake', name: 'fake' } },
      {
        name: 'moded',
        model: { provider: 'fake', name: 'fake' },
        modes: { strict: { systemPrompt: 'Be strict.' } },
      },
    ],
  });
}, 150_000);

afterAll(async () => {
  await system.stop();
  await expectNoLeftovers();
});

interface Started {
  readonly handled: boolean;
  readonly runId: string | null;
  readonly run: RunView | null;
}

const send = (sessionId: string, body: object, key?: string) =>
  system.api<Started & { code?: string; detail?: string; by?: string }>(
    'POST',
    `/v1/sessions/${sessionId}/runs`,
    body,
    {
      headers: key === undefined ? {} : { 'idempotency-key': key },
    },
  );

/** The session's hook records, of those who were to be asked. */
const recordsOf = async (sessionId: string) =>
  (await hookRecords(system, { sessionId })).filter(({ outcome }) => outcome !== 'not matched');

/** Everything that a session holds, the audit apart. */
const contentOf = async (sessionId: string) => ({
  runs: (await system.api<{ items: unknown[] }>('GET', `/v1/sessions/${sessionId}/runs`)).body.items,
  messages: await messages(system, sessionId),
  events: await system.events(sessionId),
});
const NOTHING = { runs: [], messages: [], events: [] };

it('handled: 200, nothing is created, and the same key replays it without asking again', async () => {
  const sessionId = await system.createSession();
  const body = { content: 'hello', metadata: tell({ '10-first': { 'agent/input': { decide: ['handle', 'mine'] } } }) };
  const answer = await send(sessionId, body, 'handled');
  expect(answer).toMatchObject({ status: 200, body: { handled: true, runId: null, run: null } });
  expect(await contentOf(sessionId)).toEqual(NOTHING);
  const records = await recordsOf(sessionId);
  expect(records).toMatchObject([{ gate: 'beforeInput', hook: '10-first', outcome: 'handled', reason: 'mine' }]);
  // Nobody after it was asked.
  expect(asked(system, { sessionId }).map(({ plugin }) => plugin)).toEqual(['10-first']);
  expect(await send(sessionId, body, 'handled')).toMatchObject({ status: 200, body: { handled: true } });
  expect(asked(system, { sessionId })).toHaveLength(1);
});

it.each(['reject', 'enqueue', 'interrupt'])(
  'handled: 200 on a busy session too, and the active run goes on (onBusy %s)',
  async (onBusy) => {
    const sessionId = await system.createSession();
    const active = await system.startRun(sessionId, { content: HANGING });
    await system.waitForRun(active.id, ({ status }) => status === 'running');
    const before = await contentOf(sessionId);
    const metadata = tell({ '20-second': { 'agent/input': { decide: ['handle'] } } });
    expect(await send(sessionId, { content: 'hello', onBusy, metadata })).toMatchObject({
      status: 200,
      body: { handled: true, run: null },
    });
    // Longer than a cancel is given before it is forced.
    const { body: still } = await system.api<RunView & { cancelRequested: boolean }>('GET', `/v1/runs/${active.id}`);
    expect(still).toMatchObject({ status: 'running', cancelRequested: false });
    const after = await contentOf(sessionId);
    expect(after.messages).toEqual(before.messages);
    expect(after.runs).toHaveLength(1);
    // The gate comes before the busy check: without `handled` the same request is refused, waits, or interrupts.
    const second = await send(sessionId, { content: 'hello', onBusy });
    expect(second.status).toBe(onBusy === 'reject' ? 409 : 201);
    if (onBusy === 'interrupt') expect((await system.waitForEnd(active.id)).stopReason).toBe('interrupted');
    else await system.api('POST', `/v1/runs/${active.id}/cancel`);
    if (second.body.run !== null && second.body.run !== undefined) await system.waitForEnd(second.body.run.id);
  },
);

it('block: 403 hook_blocked with the reason and who, nothing created, one audit row', async () => {
  const sessionId = await system.createSession();
  const metadata = tell({ '20-second': { 'agent/input': { decide: ['block', 'no secrets here'] } } });
  const answer = await send(sessionId, { content: 'hello', metadata }, 'blocked');
  expect(answer).toMatchObject({ status: 403, body: { code: 'hook_blocked', by: '20-second' } });
  expect(answer.body.detail).toContain('no secrets here');
  expect(await contentOf(sessionId)).toEqual(NOTHING);
  expect(await recordsOf(sessionId)).toMatchObject([
    { hook: '10-first', outcome: 'continued' },
    { gate: 'beforeInput', port: 'agent/input', hook: '20-second', outcome: 'blocked', reason: 'no secrets here' },
  ]);
  expect((await recordsOf(sessionId))[1]?.requestId).toEqual(expect.any(String));
});

it.each([
  ['hangs', { hang: true }, 'gate_timeout', 'timeout', '05-impatient'],
  ['throws', { throw: 'broken policy' }, 'gate_unavailable', 'error'],
  ['answers nonsense', { raw: '{"content":7}' }, 'gate_unavailable', 'invalid'],
  ['empties the content', { raw: '{"content":""}' }, 'gate_unavailable', 'invalid'],
  ['names an unknown mode', { change: { mode: 'unheard-of' } }, 'gate_unavailable', 'invalid'],
] as const)('could not ask (it %s): 503, the active run untouched, the key is free', async (...given) => {
  const [how, told, code, outcome, by = '10-first'] = given;
  const key = `free-${how.replaceAll(' ', '-')}`;
  const sessionId = await system.createSession();
  const active = await system.startRun(sessionId, { content: HANGING });
  await system.waitForRun(active.id, ({ status }) => status === 'running');
  const failing = {
    agent: by === '10-first' ? 'default' : 'watched',
    content: 'hello',
    metadata: tell({ [by]: { 'agent/input': told } }),
    onBusy: 'interrupt',
  };
  const answer = await send(sessionId, failing, key);
  expect(answer).toMatchObject({ status: 503, body: { code, by } });
  expect((await contentOf(sessionId)).messages).toHaveLength(1);
  expect((await system.api('GET', `/v1/runs/${active.id}`)).body).toMatchObject({
    status: 'running',
    cancelRequested: false,
  });
  expect((await recordsOf(sessionId)).at(-1)).toMatchObject({ hook: by, outcome });
  // The very same key works for the same body, and for another one: nothing was stored under it.
  expect((await send(sessionId, failing, key)).status).toBe(503);
  const works = await send(sessionId, { content: 'hello', onBusy: 'interrupt' }, key);
  expect(works.status).toBe(201);
  await system.waitForEnd(works.body.runId as string);
  expect((await system.waitForEnd(active.id)).stopReason).toBe('interrupted');
});

it('transform: the rewritten text and mode are stored, the original nowhere', async () => {
  const sessionId = await system.createSession();
  const original = 'my password is swordfish';
  const answer = await send(sessionId, {
    agent: 'moded',
    content: original,
    metadata: tell({ '10-first': { 'agent/input': { change: { content: 'my password is ***', mode: 'strict' } } } }),
  });
  expect(answer).toMatchObject({ status: 201, body: { run: { mode: 'strict' } } });
  const run = await system.waitForEnd(answer.body.runId as string);
  expect(run.status).toBe('completed');
  expect(await messages(system, sessionId)).toMatchObject([
    { role: 'user', content: { text: 'my password is ***' } },
    { role: 'assistant', content: { text: 'You said: my password is ***' } },
  ]);
  const { rows } = await system.db.query<{ config: { mode: string; systemPrompt: string } }>(
    'SELECT config FROM runs WHERE id = $1',
    [run.id],
  );
  expect(rows[0]?.config).toMatchObject({ mode: 'strict', systemPrompt: 'Be strict.' });
  const stored = await system.db.query('SELECT content::text FROM messages WHERE content::text LIKE $1', [
    '%swordfish%',
  ]);
  expect(stored.rows).toEqual([]);
});

it('two plugins in folder order: the second sees what the first changed', async () => {
  const sessionId = await system.createSession();
  const answer = await send(sessionId, {
    content: 'a',
    metadata: tell({
      '20-second': { 'agent/input': { append: 'c' } },
      '10-first': { 'agent/input': { append: 'b' } },
    }),
  });
  expect(answer.status).toBe(201);
  expect(asked(system, { sessionId }).map(({ plugin, seen, payload }) => [plugin, seen, JSON.parse(payload)])).toEqual([
    ['10-first', [], { content: 'a' }],
    ['20-second', ['10-first'], { content: 'ab' }],
  ]);
  await system.waitForEnd(answer.body.runId as string);
  expect((await messages(system, sessionId))[0]?.content.text).toBe('abc');
  expect((await recordsOf(sessionId)).map(({ hook, outcome }) => [hook, outcome])).toEqual([
    ['10-first', 'changed'],
    ['20-second', 'changed'],
  ]);
  expect(await countRows(system, 'runs', { column: 'session_id', value: sessionId })).toBe(1);
});
