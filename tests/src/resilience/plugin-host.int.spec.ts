import { readdirSync, readFileSync } from 'node:fs';
import { eventually, expectNoLeftovers, writePlugin } from '@codedock/testkit';
import { apiOf } from '../api.js';
import { fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';
import { troubleAt, troublemaker } from './trouble.js';

/** Pids of processes whose command line mentions `text`; the plugins of a test are started from its own folder. */
function processesOf(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text);
      } catch {
        return false;
      }
    })
    .map(Number)
    .filter((pid) => pid !== process.pid);
}

const post = (system: System, sessionId: string, body: Record<string, unknown>) =>
  system.api<Record<string, unknown>>('POST', `/v1/sessions/${sessionId}/runs`, body);

const runnerReady = async (system: System): Promise<{ ok: boolean; text: string }> => {
  const [, port] = /"health":(\d+)/.exec(system.runners[0]?.output() ?? '') ?? [];
  const response = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { connection: 'close' } });
  return { ok: response.ok, text: await response.text() };
};

/** A gateway that knows no plugin-host accepts what the others may not: a run for the runner to leave alone. */
async function acceptUngated(system: System): Promise<RunView> {
  await system.startGateway({ PLUGIN_HOST_URL: '' });
  const api = apiOf(system.urls.at(-1) as string, system.key);
  const sessionId = await system.createSession();
  const answer = await api<{ run: RunView }>('POST', `/v1/sessions/${sessionId}/runs`, { content: 'early' });
  expect(answer.status).toBe(201);
  return answer.body.run;
}

describe('the plugin-host is not there', () => {
  let system: System;
  beforeAll(async () => {
    system = await startSystem({
      pluginHostLater: true,
      plugins: async (root) => {
        await writePlugin(root, 'append', { mode: 'append', port: 'agent/pre-step', text: ' (seen)' });
        await writePlugin(root, 'trouble', { source: troublemaker('trouble', ['agent/input', 'tools/pre-execute']) });
      },
    });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  it('yet: input is refused, runs wait; when it comes everything flows', async () => {
    const sessionId = await system.createSession();
    const refused = await post(system, sessionId, { content: 'early' });
    expect(refused.status).toBe(503);
    expect(refused.body['code']).toBe('gate_unavailable');
    expect(refused.body['detail']).toMatch(/plugin-host|plugin host/i);
    const waiting = await acceptUngated(system);
    expect(await runnerReady(system)).toMatchObject({ ok: false, text: expect.stringMatching(/plugins/) });
    // The reconciler rings again for a run that is queued longer than 5 s: even then it is not taken.
    await eventually(
      async () => {
        const { rows } = await system.db.query(
          `SELECT doorbell, status, lease_token FROM runs WHERE id = $1 AND created_at < now() - interval '6 seconds'`,
          [waiting.id],
        );
        expect(rows[0]).toMatchObject({ status: 'queued', lease_token: 0 });
      },
      { timeoutMs: 15_000, what: 'the run to wait for more than a reconciler needs' },
    );
    expect((await system.events(waiting.sessionId)).map(({ type }) => type)).toEqual(['run.created']);

    await system.startPluginHost();
    expect((await system.waitForEnd(waiting.id)).status).toBe('completed');
    const accepted = await eventually(
      async () => {
        const answer = await post(system, sessionId, { content: 'now' });
        expect(answer.status).toBe(201);
        return answer.body['run'] as RunView;
      },
      { what: 'input to be accepted' },
    );
    expect((await system.waitForEnd(accepted.id)).status).toBe('completed');
    const audit = await system.api<{ items: { gate: string; hook: string; outcome: string }[] }>(
      'GET',
      `/v1/runs/${accepted.id}/hooks`,
    );
    const asked = audit.body.items.map(({ gate, hook, outcome }) => `${gate} ${hook} ${outcome}`);
    expect(asked).toEqual(expect.arrayContaining(['beforeInput trouble continued', 'beforeRunStart append changed']));
  }, 150_000);

  it('any more (kill -9): veto gates are closed at once, and no plugin process survives it', async () => {
    expect(processesOf(system.pluginRoot).length).toBeGreaterThanOrEqual(2);
    const hanging = await system.startRun(await system.createSession(), {
      content: fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'told' }),
      ...troubleAt('tools/pre-execute', 'hang'),
    });
    await eventually(
      async () => (await system.events(hanging.sessionId)).some(({ type }) => type === 'tool.call_started'),
      { what: 'the gate to be asked' },
    );
    await system.pluginHosts[0]?.kill();
    await eventually(() => processesOf(system.pluginRoot).length === 0, {
      what: 'every plugin process to be gone',
    });
    const sessionId = await system.createSession();
    const refused = await post(system, sessionId, { content: 'x' });
    expect(refused.status).toBe(503);
    expect(refused.body['code']).toBe('gate_unavailable');
    expect((await system.events(sessionId)).length).toBe(0);
    const result = await eventually(
      async () => {
        const events = await system.events(hanging.sessionId);
        const found = events.find(({ type }) => type === 'tool.execution_result');
        if (found === undefined) throw new Error(JSON.stringify(events.map(({ type }) => type)));
        return found;
      },
      { what: 'the failed result' },
    );
    expect(result.payload).toMatchObject({ state: 'failed', source: 'host' });
    expect((await system.events(hanging.sessionId)).some(({ type }) => type === 'tool.execution_started')).toBe(false);

    await system.startPluginHost();
    expect((await system.waitForEnd(hanging.id)).status).toBe('completed');
    await eventually(async () => expect((await post(system, sessionId, { content: 'x' })).status).toBe(201), {
      timeoutMs: 15_000,
      what: 'input to be accepted again',
    });
  }, 150_000);
});

describe('a required plugin never came up', () => {
  let system: System;
  beforeAll(async () => {
    system = await startSystem({
      unready: true,
      plugins: async (root) => {
        await writePlugin(root, 'broken', { mode: 'exit-at-start', code: 3 });
      },
    });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await expectNoLeftovers();
  });

  it('refuses input with its name and takes no run, while administrators can act', async () => {
    const sessionId = await system.createSession();
    const refused = await eventually(
      async () => {
        const answer = await post(system, sessionId, { content: 'x' });
        expect(JSON.stringify(answer.body)).toContain('broken');
        return answer;
      },
      { what: 'the refusal to name the plugin' },
    );
    expect(refused.status).toBe(503);
    expect(refused.body['code']).toBe('gate_unavailable');
    const waiting = await acceptUngated(system);
    expect((await runnerReady(system)).ok).toBe(false);
    expect((await system.api<RunView>('GET', `/v1/runs/${waiting.id}`)).body.status).toBe('queued');

    const disabled = await system.api('POST', '/v1/plugins/broken/disable', { reason: 'it does not start' });
    expect(disabled.status).toBe(200);
    expect((await system.waitForEnd(waiting.id)).status).toBe('completed');
    await eventually(async () => expect((await post(system, sessionId, { content: 'x' })).status).toBe(201), {
      what: 'input to be accepted without the plugin',
    });
  }, 150_000);
});
