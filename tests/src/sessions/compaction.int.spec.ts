import {
  eventually,
  expectNoLeftovers,
  failsWith,
  hangs,
  type RecordedRequest,
  type RecordingProvider,
  recordingProvider,
  says,
} from '@codedock/testkit';
import { asked, messages, writePolicy } from '../gates/policies.js';
import { describeOnEachProfile } from '../profiles.js';
import { type RunView, START_MS, type System, startSystem } from '../system.js';

/** A message of about 900 tokens: four of them are over 80 % of the window of the agent `small`. */
const LONG = 'x'.repeat(3_600);
const isSummary = (request: RecordedRequest) => request.body.includes('Summarise the conversation above');

interface Body {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

describeOnEachProfile('a session longer than the window of its model', (profile) => {
  let provider: RecordingProvider;
  let system: System;

  beforeAll(async () => {
    provider = await recordingProvider();
    provider.otherwise((request) => says(isSummary(request) ? 'they spoke of x' : 'noted'));
    system = await startSystem({
      profile,
      plugins: (root) => writePolicy(root, 'watcher', { ports: ['agent/request', 'llm/stream'] }),
      agents: [
        {
          name: 'small',
          systemPrompt: 'be brief',
          model: { provider: 'openai', name: 'recorded', contextWindow: 4_000, maxOutputTokens: 200 },
          retry: { maxAttempts: 1 },
        },
      ],
      env: { CODEDOCK_LEASE_TTL: '2s', CODEDOCK_LEASE_HEARTBEAT: '400ms' },
      runnerEnv: {
        OPENAI_API_KEY: 'sk-test',
        OPENAI_BASE_URL: provider.baseUrl,
        CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
      },
    });
  }, START_MS);

  afterAll(async () => {
    await system?.stop();
    await provider?.close();
    await expectNoLeftovers();
  });

  /** A session whose next input makes the context too long. */
  async function longSession(): Promise<string> {
    const sessionId = await system.createSession();
    for (const name of ['one', 'two', 'three']) await said(sessionId, `${name} ${LONG}`);
    return sessionId;
  }
  const start = (sessionId: string, content: string) => system.startRun(sessionId, { content, agent: 'small' });
  async function said(sessionId: string, content: string): Promise<RunView> {
    const run = await start(sessionId, content);
    const ended = await system.waitForEnd(run.id);
    expect(ended).toMatchObject({ status: 'completed' });
    return ended;
  }
  const compactions = async (sessionId: string) =>
    (await system.events(sessionId)).filter(({ type }) => type === 'context.compacted');
  const requestsSince = (count: number) => provider.requests.slice(count);
  const textsOf = (request: RecordedRequest | undefined) =>
    ((request?.json() ?? { messages: [] }) as Body).messages.map(({ content }) => content);

  it('goes on with a summary, which every later run uses; the originals stay, and the call is gated and counted', async () => {
    const sessionId = await longSession();
    const before = provider.requests.length;
    const run = await said(sessionId, `four ${LONG}`);
    const [summary, reply, ...more] = requestsSince(before);
    expect(more).toEqual([]);
    expect(textsOf(summary)[1]).toContain('one xxx');
    expect(textsOf(summary).at(-1)).toContain('Summarise the conversation above');
    expect(textsOf(reply)[0]).toBe('be brief');
    expect(textsOf(reply)[1]).toContain('they spoke of x');
    expect(textsOf(reply).at(-1)).toContain('four xxx');
    expect(textsOf(reply).join()).not.toContain('one xxx');

    const [event, ...others] = await compactions(sessionId);
    expect(others).toEqual([]);
    const usage = { inputTokens: 10, outputTokens: 5 };
    expect(event).toMatchObject({ runId: run.id, payload: { summary: 'they spoke of x', usage, total: usage } });
    const { body } = await system.api<{ usage: object }>('GET', `/v1/runs/${run.id}`);
    expect(body.usage).toEqual({ inputTokens: 20, outputTokens: 10 });

    const stored = await messages(system, sessionId);
    expect(stored.map(({ role }) => role)).toEqual(Array.from({ length: 4 }, () => ['user', 'assistant']).flat());
    expect(JSON.stringify(stored[0])).toContain('one xxx');
    const gates = (port: string) => asked(system, { runId: run.id, port }).length;
    expect([gates('agent/request'), gates('llm/stream')]).toEqual([2, 2]);

    await said(sessionId, 'and now?');
    const later = requestsSince(before + 2);
    expect(later).toHaveLength(1);
    expect(textsOf(later[0])[1]).toContain('they spoke of x');
    expect(textsOf(later[0]).join()).not.toContain('one xxx');
  }, 120_000);

  it('is summarised once when the runner dies behind the summary, and the resumed run begins with it', async () => {
    const sessionId = await longSession();
    const before = provider.requests.length;
    provider.script(says('kept over the crash'), hangs());
    const run = await start(sessionId, `four ${LONG}`);
    await provider.waitForRequest(before + 1, 30_000);
    expect(await compactions(sessionId)).toHaveLength(1);
    await killRunner();
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(requestsSince(before).map(isSummary)).toEqual([true, false, false]);
    expect(textsOf(provider.requests.at(-1))[1]).toContain('kept over the crash');
    expect(await compactions(sessionId)).toHaveLength(1);
    expectGapless(await system.events(sessionId));
  }, 150_000);

  it('is summarised anew when the runner dies in the middle of it, and stored once', async () => {
    const sessionId = await longSession();
    const before = provider.requests.length;
    provider.script(hangs());
    const run = await start(sessionId, `four ${LONG}`);
    await provider.waitForRequest(before, 30_000);
    expect(await compactions(sessionId)).toEqual([]);
    await killRunner();
    expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
    expect(requestsSince(before).map(isSummary)).toEqual([true, true, false]);
    expect(await compactions(sessionId)).toHaveLength(1);
    expectGapless(await system.events(sessionId));
  }, 150_000);

  it('ends as model_error when the model cannot summarise, and when one message alone is too long', async () => {
    const sessionId = await longSession();
    provider.script(failsWith(400));
    const failed = await system.waitForEnd((await start(sessionId, `four ${LONG}`)).id);
    expect(failed).toMatchObject({ status: 'failed', stopReason: 'model_error' });
    expect(failed.message).toContain('could not be summarised');
    const before = provider.requests.length;
    const huge = await system.waitForEnd((await start(await system.createSession(), 'x'.repeat(60_000))).id);
    expect(huge).toMatchObject({ status: 'failed', stopReason: 'model_error' });
    expect(huge.message).toContain('nothing is left to summarise');
    expect(provider.requests).toHaveLength(before);
  }, 120_000);

  async function killRunner(): Promise<void> {
    const alive = system.runners.find((runner) => !runner.hasExited());
    await alive?.kill();
    await eventually(() => alive?.hasExited() === true, { what: 'the runner to be dead' });
    await system.startRunner();
  }
});

function expectGapless(events: readonly { readonly seq: number }[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
}
