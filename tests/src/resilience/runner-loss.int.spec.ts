import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  type RecordingProvider,
  recordingProvider,
  says,
  type TemporaryFolder,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { type EventView, fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

/** Short enough that a dead runner is replaced within a test. */
const LEASE = { CODEDOCK_LEASE_TTL: '2s', CODEDOCK_LEASE_HEARTBEAT: '400ms' };
const ILL_FORMED = 'a\u0000b\ud800c';
const WELL_FORMED = 'a\ufffdb\ufffdc';

let folder: TemporaryFolder;
let provider: RecordingProvider;
let system: System;

const effectFile = (tool: string) => path.join(folder.path, tool);
const effects = (tool: string): { callId: string; idempotencyKey: string; attempt: number }[] => {
  try {
    return readFileSync(effectFile(tool), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  } catch {
    return [];
  }
};

beforeAll(async () => {
  folder = await temporaryFolder();
  provider = await recordingProvider();
  system = await startSystem({
    env: LEASE,
    plugins: async (root) => {
      await writePlugin(root, 'tools', {
        mode: 'tools',
        tools: [
          { name: 'pay', effect: 'effectful', effectFile: effectFile('pay'), delayMs: 6_000 },
          { name: 'look', effect: 'pure', effectFile: effectFile('look'), delayMs: 3_000 },
          { name: 'slow', effect: 'effectful', effectFile: effectFile('slow'), delayMs: 8_000 },
          { name: 'binary', effect: 'pure', result: { text: ILL_FORMED, [ILL_FORMED]: 1 } },
        ],
      });
    },
    agents: [{ name: 'recorded', model: { provider: 'openai', name: 'recorded' } }],
    runnerEnv: {
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: provider.baseUrl,
      CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
      RUNNER_DRAIN_TIMEOUT: '500ms',
    },
  });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await provider?.close();
  await folder?.remove();
  await expectNoLeftovers();
});

const started = async (content: string): Promise<RunView> => system.startRun(await system.createSession(), { content });
const runner = () => {
  const alive = system.runners.find((each) => !each.hasExited());
  if (alive === undefined) throw new Error('no runner is alive');
  return alive;
};
const of = (events: readonly EventView[], type: string) => events.filter((event) => event.type === type);
function expectGapless(events: readonly EventView[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
}

describe('kill -9 of a runner in the middle of a tool call', () => {
  it('an effectful call is not executed again: its outcome is unknown, and the model is told', async () => {
    const run = await started(fakeScript({ toolCalls: [{ name: 'pay' }] }, { text: 'told' }));
    await eventually(() => effects('pay').length === 1, { what: 'the effect' });
    await runner().kill();
    await system.startRunner();
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed', stopReason: 'completed' });
    expect(effects('pay')).toHaveLength(1);
    const events = await system.events(run.sessionId);
    expectGapless(events);
    expect(of(events, 'tool.outcome_unknown')).toHaveLength(1);
    expect(of(events, 'tool.execution_started')).toHaveLength(1);
    const { items } = (
      await system.api<{ items: { role: string; content: Record<string, unknown> }[] }>(
        'GET',
        `/v1/sessions/${run.sessionId}/messages`,
      )
    ).body;
    expect(items.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
    expect(JSON.stringify(items[2]?.content)).toMatch(/unknown|not known/);
  }, 150_000);

  it('a pure call is executed again with the same idempotency key', async () => {
    const run = await started(fakeScript({ toolCalls: [{ name: 'look' }] }, { text: 'seen' }));
    await eventually(() => effects('look').length === 1, { what: 'the first execution' });
    await runner().kill();
    await system.startRunner();
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed', stopReason: 'completed' });
    const [first, second, ...others] = effects('look');
    expect(others).toEqual([]);
    expect(second?.idempotencyKey).toBe(first?.idempotencyKey);
    const events = await system.events(run.sessionId);
    expectGapless(events);
    expect(of(events, 'tool.outcome_unknown')).toEqual([]);
    expect(of(events, 'tool.execution_result').map(({ payload }) => payload['state'])).toEqual(['succeeded']);
  }, 150_000);
});

describe('SIGTERM of a runner', () => {
  it('hands the run back in the middle of a reply; another continues the same sequence', async () => {
    const run = await started(
      fakeScript({ chunks: Array.from({ length: 40 }, (_, n) => `${n} `), chunkDelayMs: 100 }, { text: 'never' }),
    );
    await eventually(async () => of(await system.events(run.sessionId), 'assistant.delta').length >= 3, {
      what: 'the reply to begin',
    });
    const leaving = runner();
    await Promise.all([system.startRunner(), leaving.stop()]);
    expect(await leaving.exited).toEqual({ code: 0, signal: null });
    const handedBack = await system.api<RunView>('GET', `/v1/runs/${run.id}`);
    expect(['queued', 'running']).toContain(handedBack.body.status);
    const ended = await system.waitForEnd(run.id, 40_000);
    expect(ended).toMatchObject({ status: 'completed', attempt: 2 });
    const events = await system.events(run.sessionId);
    expectGapless(events);
    expect(of(events, 'run.started')).toHaveLength(1);
    expect(of(events, 'turn.restarted')).toHaveLength(1);
    // What counts is the text after the restart, whole and once.
    const restarted = events.findIndex(({ type }) => type === 'turn.restarted');
    const text = of(events.slice(restarted), 'assistant.delta').map(({ payload }) => payload['text']);
    expect(text.join('')).toBe(Array.from({ length: 40 }, (_, n) => `${n} `).join(''));
    expect(of(events, 'assistant.completed')).toHaveLength(1);
  }, 150_000);

  it('marks an effectful call that does not end in time as unknown and executes it no second time', async () => {
    const run = await started(fakeScript({ toolCalls: [{ name: 'slow' }] }, { text: 'told' }));
    await eventually(() => effects('slow').length === 1, { what: 'the effect' });
    const leaving = runner();
    await Promise.all([system.startRunner(), leaving.stop()]);
    expect((await system.waitForEnd(run.id, 40_000)).status).toBe('completed');
    expect(effects('slow')).toHaveLength(1);
    const events = await system.events(run.sessionId);
    expectGapless(events);
    expect(of(events, 'tool.outcome_unknown')).toHaveLength(1);
  }, 150_000);
});

describe('text that PostgreSQL refuses', () => {
  const stored = async (run: RunView) => {
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed', attempt: 1 });
    const events = await system.events(run.sessionId);
    // The script itself, in the first event, spells the escapes out.
    const text = JSON.stringify(events.slice(1));
    expect(text).not.toMatch(/\\u0000|\\ud800/i);
    return { events, text };
  };

  it('from the scripted model is stored with U+FFFD', async () => {
    const run = await started(fakeScript({ text: ILL_FORMED, toolCalls: [{ name: 'ping' }] }, { text: 'ok' }));
    const { events } = await stored(run);
    expect(of(events, 'assistant.completed')[0]?.payload).toMatchObject({
      message: { content: { text: WELL_FORMED } },
    });
    expect(of(events, 'assistant.delta').map(({ payload }) => payload['text'])[0]).toBe(WELL_FORMED);
  });

  it('from an HTTP provider, in text and arguments', async () => {
    provider.script(
      {
        kind: 'message',
        pieces: ['a\u0000b', '\ud800c'],
        toolCalls: [{ id: 'c', name: 'binary', arguments: '{"text":"\\u0000\\ud800"}' }],
        usage: { promptTokens: 1, completionTokens: 1 },
      },
      says('ok'),
    );
    const run = await system.startRun(await system.createSession(), { content: 'go', agent: 'recorded' });
    const { events } = await stored(run);
    expect(of(events, 'assistant.completed')[0]?.payload).toMatchObject({
      message: { content: { text: WELL_FORMED } },
    });
  });

  it('from a tool, in values and keys', async () => {
    const { events, text } = await stored(
      await started(fakeScript({ toolCalls: [{ name: 'binary' }] }, { text: 'ok' })),
    );
    expect(of(events, 'tool.execution_result')[0]?.payload).toMatchObject({
      state: 'succeeded',
      result: { output: { text: WELL_FORMED, [WELL_FORMED]: 1 } },
    });
    expect(text).toContain('\ufffd');
  });
});
