import { eventually, expectNoLeftovers } from '@codedock/testkit';
import { apiOf } from '../api.js';
import { describeOnEachProfile } from '../profiles.js';
import { fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

const PING = { toolCalls: [{ name: 'ping' }], usage: { inputTokens: 40, outputTokens: 5 } };
/** Long enough to be killed in, and made anew afterwards. */
const SLOW_PING = { ...PING, delayMs: 5_000 };
const BASE = { model: { provider: 'fake', name: 'fake' }, tools: ['ping'] };

describeOnEachProfile('limits', (profile) => {
  let system: System;

  beforeAll(async () => {
    system = await startSystem({
      profile,
      env: { CODEDOCK_LEASE_TTL: '2s', CODEDOCK_LEASE_HEARTBEAT: '400ms' },
      agents: [
        { ...BASE, name: 'turns', limits: { maxTurns: 3 } },
        { ...BASE, name: 'calls', limits: { maxToolCalls: 2 } },
        { ...BASE, name: 'tokens', limits: { maxTokens: 100 } },
        { ...BASE, name: 'time', limits: { wallTimeMs: 12_000 } },
      ],
    });
  }, START_MS);

  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  it('of a run hold over the death of its runner: what was used before counts', async () => {
    const scripts: Record<string, string> = {
      turns: fakeScript(PING, SLOW_PING, PING, PING),
      calls: fakeScript(PING, SLOW_PING, PING, PING),
      tokens: fakeScript(PING, SLOW_PING, PING, PING),
      time: fakeScript(PING, { hang: true }),
    };
    const runs = new Map<string, RunView>();
    await Promise.all(
      Object.entries(scripts).map(async ([agent, content]) => {
        runs.set(agent, await system.startRun(await system.createSession(), { content, agent }));
      }),
    );
    await eventually(
      async () => {
        const { rows } = await system.db.query("SELECT 1 FROM turns WHERE iteration = 2 AND status = 'open'");
        return rows.length === runs.size;
      },
      { timeoutMs: 30_000, what: 'every run to be in its second turn' },
    );
    await system.runners[0]?.kill();
    await system.startRunner();
    const ends: Record<string, object> = {};
    for (const [agent, { id }] of runs) {
      const { status, stopReason, turns, toolCalls, attempt } = (await system.waitForEnd(id, 60_000)) as RunView & {
        turns: number;
        toolCalls: number;
      };
      expect(attempt).toBeGreaterThan(1);
      ends[agent] = { status, stopReason, turns, toolCalls };
    }
    expect(ends).toEqual({
      turns: { status: 'failed', stopReason: 'max_turns', turns: 3, toolCalls: 3 },
      calls: { status: 'failed', stopReason: 'max_tool_calls', turns: 3, toolCalls: 3 },
      tokens: { status: 'failed', stopReason: 'budget_exceeded', turns: 3, toolCalls: 3 },
      time: { status: 'timed_out', stopReason: 'timeout', turns: 2, toolCalls: 1 },
    });
    const executions = async (agent: string) =>
      (await system.events(runs.get(agent)?.sessionId ?? '')).filter(({ type }) => type === 'tool.execution_started');
    // The reply that goes over the limit is stored, and none of its calls is executed.
    expect((await executions('calls')).length).toBe(2);
    expect((await executions('tokens')).length).toBe(2);
  }, 150_000);

  it('of a tenant keep its runs waiting, in order, and nobody else’s', async () => {
    const key = await system.createKey({ tenant: 'capped' });
    const tenant = await system.store.tenants.findByName('capped');
    await system.store.tenants.setLimits(tenant?.id ?? '', { maxConcurrentRuns: 1 });
    const capped = apiOf(system.url, key);
    const start = async (content: string): Promise<string> => {
      const session = await capped<{ id: string }>('POST', '/v1/sessions', {});
      const answer = await capped<{ runId: string }>('POST', `/v1/sessions/${session.body.id}/runs`, { content });
      expect(answer.status).toBe(201);
      return answer.body.runId;
    };
    const hanging = await start(fakeScript({ hang: true }));
    const waiting: string[] = [];
    for (let n = 0; n < 5; n += 1) waiting.push(await start(fakeScript({ text: `${n}` })));

    expect(await system.runToEnd(fakeScript({ text: 'not held up' }))).toMatchObject({ status: 'completed' });
    const states = async () =>
      (
        await system.db.query<{ status: string }>('SELECT status FROM runs WHERE id = ANY ($1) ORDER BY position', [
          waiting,
        ])
      ).rows.map(({ status }) => status);
    expect(new Set(await states())).toEqual(new Set(['pending']));

    expect((await capped('POST', `/v1/runs/${hanging}/cancel`)).status).toBe(200);
    await eventually(async () => expect(new Set(await states())).toEqual(new Set(['completed'])), {
      timeoutMs: 60_000,
      what: 'the waiting runs to end',
    });
    const { rows } = await system.db.query<{ id: string }>(
      'SELECT id FROM runs WHERE id = ANY ($1) ORDER BY started_at, position',
      [waiting],
    );
    expect(rows.map(({ id }) => id)).toEqual(waiting);
  }, 150_000);
});
