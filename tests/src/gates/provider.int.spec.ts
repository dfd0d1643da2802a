import {
  callsTools,
  expectNoLeftovers,
  failsWith,
  type RecordingProvider,
  recordingProvider,
  says,
} from '@codedock/testkit';
import { type RunView, type System, startSystem } from '../system.js';
import { asked, hookRecords, messages, type Policies, tell, writePolicy } from './policies.js';

const KEY = 'sk-test-credential-5d1c';

let provider: RecordingProvider;
let system: System;

beforeAll(async () => {
  provider = await recordingProvider();
  system = await startSystem({
    plugins: async (root) => {
      await writePolicy(root, '10-first');
      await writePolicy(root, '20-second', { ports: ['agent/pre-step', 'agent/request', 'llm/stream'] });
    },
    agents: [
      {
        name: 'http',
        systemPrompt: 'You are http.',
        model: { provider: 'openai', name: 'recorded', options: { temperature: 0.5 } },
        tools: ['ping'],
        retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 20 },
      },
    ],
    env: { CODEDOCK_LOG_LEVEL: 'debug', CODEDOCK_LEASE_TTL: '3s', CODEDOCK_LEASE_HEARTBEAT: '500ms' },
    runnerEnv: { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: provider.baseUrl, RUNNER_DRAIN_TIMEOUT: '1s' },
  });
}, 150_000);

afterAll(async () => {
  await system.stop();
  await provider.close();
  await expectNoLeftovers();
});

/** Starts a run of the agent `http` in a new session. */
async function start(content: string, policies: Policies): Promise<RunView> {
  return system.startRun(await system.createSession(), { content, agent: 'http', metadata: tell(policies) });
}

interface ChatBody {
  readonly messages: readonly { readonly role: string; readonly content: string | null }[];
}

const bodyOf = (request: { json(): unknown } | undefined) => request?.json() as ChatBody;
const encoded = (text: string) => Buffer.from(text).toString('base64');

/** Tables that hold a text in any column of any row. */
async function tablesWith(text: string): Promise<string[]> {
  const tables = await system.db.query<{ name: string }>(
    `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) AS name FROM information_schema.tables
     WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`,
  );
  expect(tables.rows.map(({ name }) => name)).toEqual(expect.arrayContaining(['public.runs', 'public.events']));
  const found: string[] = [];
  for (const { name } of tables.rows) {
    const hits = await system.db.query(`SELECT 1 FROM ${name} AS t WHERE t::text LIKE $1 LIMIT 1`, [`%${text}%`]);
    if (hits.rowCount !== 0) found.push(name);
  }
  return found;
}

/** Everything the API shows of a run and its session. */
async function shown({ id, sessionId }: RunView): Promise<string> {
  const paths = [
    ...['', '/trace', '/hooks'].map((view) => `/v1/runs/${id}${view}`),
    ...['', '/runs', '/messages', '/hooks', '/event-log'].map((view) => `/v1/sessions/${sessionId}${view}`),
  ];
  const answers = await Promise.all(paths.map((path) => system.api('GET', path)));
  expect(answers.map(({ status }) => status)).toEqual(paths.map(() => 200));
  return JSON.stringify(answers.map(({ body }) => body));
}

const logs = () =>
  [...system.gateways, ...system.runners, ...system.pluginHosts].map((process) => process.output()).join('\n');

describe('before the run starts', () => {
  it('prompt and hidden text reach every model call, over kill -9 too; asked once, kept and shown nowhere', async () => {
    const before = provider.requests.length;
    provider.script(callsTools([{ id: 'call-1', name: 'ping', arguments: {} }]), { kind: 'hang' }, says('finished'));
    const hidden = ['zebra-one', 'zebra-two'] as const;
    const run = await start('go', {
      '10-first': { 'agent/pre-step': { prompt: encoded('Zebra prompt.'), hide: encoded(hidden[0]) } },
      '20-second': { 'agent/pre-step': { append: ' And more.', hide: encoded(hidden[1]) } },
    });
    await provider.waitForRequest(before + 1);
    await system.runners[0]?.kill();
    await system.startRunner();
    const ended = await system.waitForEnd(run.id, 20_000);
    expect(ended.status).toBe('completed');
    // More than one only where the machine is too busy for the lease.
    expect(ended.attempt).toBeGreaterThan(1);

    const requests = provider.requests.slice(before);
    expect(requests.length).toBeGreaterThan(2);
    for (const request of requests) {
      expect(bodyOf(request).messages.slice(0, 4)).toEqual([
        { role: 'system', content: 'Zebra prompt. And more.' },
        { role: 'system', content: hidden[0] },
        { role: 'system', content: hidden[1] },
        { role: 'user', content: 'go' },
      ]);
    }
    const questions = asked(system, { runId: run.id, port: 'agent/pre-step' });
    expect(questions.map(({ plugin }) => plugin)).toEqual(['10-first', '20-second']);
    const records = (await hookRecords(system, { runId: run.id })).filter(({ gate }) => gate === 'beforeRunStart');
    expect(records.map(({ hook, outcome }) => [hook, outcome])).toEqual([
      ['10-first', 'changed'],
      ['20-second', 'changed'],
    ]);
    const view = await shown(run);
    for (const text of ['Zebra prompt', ...hidden]) {
      expect(await tablesWith(text)).toEqual([]);
      expect(view).not.toContain(text);
      expect(logs()).not.toContain(text);
    }
    // The search finds what is there.
    expect(await tablesWith('finished')).toEqual(expect.arrayContaining(['public.messages']));
    expect(view).toContain('finished');
    expect(logs()).toContain(run.id);
  }, 150_000);

  it('a block ends the run as blocked, without a model call', async () => {
    const before = provider.requests.length;
    const run = await start('go', { '20-second': { 'agent/pre-step': { decide: ['block', 'not today'] } } });
    expect(await system.waitForEnd(run.id)).toMatchObject({
      status: 'blocked',
      stopReason: 'blocked_by_hook',
      message: 'not today',
      by: '20-second',
    });
    expect(provider.requests).toHaveLength(before);
    expect((await system.events(run.sessionId)).map(({ type }) => type)).toEqual([
      'run.created',
      'run.state_changed',
      'run.blocked',
    ]);
    expect((await hookRecords(system, { runId: run.id })).at(-1)).toMatchObject({
      gate: 'beforeRunStart',
      hook: '20-second',
      outcome: 'blocked',
      reason: 'not today',
    });
  });
});

it('what a plugin makes of the context serves that call and is stored nowhere', async () => {
  const before = provider.requests.length;
  provider.script(callsTools([{ id: 'call-1', name: 'ping', arguments: {} }]), says('okay'));
  const run = await start('tell nobody: swordfish', {
    '10-first': { 'agent/request': { replace: ['swordfish', encoded('rainbow-trout')], append: ' Be brief.' } },
  });
  expect((await system.waitForEnd(run.id)).status).toBe('completed');
  const requests = provider.requests.slice(before);
  expect(requests).toHaveLength(2);
  for (const request of requests) {
    expect(bodyOf(request).messages.slice(0, 2)).toEqual([
      { role: 'system', content: 'You are http. Be brief.' },
      { role: 'user', content: 'tell nobody: rainbow-trout' },
    ]);
  }
  // Each call starts from what is stored; the second plugin sees what the first made of it.
  const questions = asked(system, { runId: run.id, port: 'agent/request' });
  expect(questions.map(({ plugin }) => plugin)).toEqual(['10-first', '20-second', '10-first', '20-second']);
  for (const { plugin, payload } of questions) {
    expect(payload).toContain(plugin === '10-first' ? 'swordfish' : 'rainbow-trout');
    expect(payload).not.toContain(plugin === '10-first' ? 'rainbow-trout' : 'swordfish');
  }
  expect((await messages(system, run.sessionId))[0]?.content.text).toBe('tell nobody: swordfish');
  expect(await tablesWith('rainbow-trout')).toEqual([]);
  expect(await tablesWith('swordfish')).toContain('public.messages');
});

describe('the request to the provider', () => {
  // No JSON library writes it like this.
  const RAW =
    '{ "stream" : true,"big":123456789012345678901234567890,  "one":1.0,"exp":1E2,\n"z":"\\u00e9\\/","a":[ ] ,' +
    '"model":"recorded", "messages":[{"content":"replaced","role":"user"}] }';

  it('is the text a plugin answered, byte for byte, with its header; credentials arrive and no plugin sees them', async () => {
    const before = provider.requests.length;
    const run = await start('original', {
      '10-first': { 'llm/stream': { raw: `{"body" : ${RAW} ,"headers":{"X-First":"one"}}` } },
      '20-second': { 'llm/stream': { change: { headers: { 'x-second': 'two' } } } },
    });
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    expect(provider.requests).toHaveLength(before + 1);
    const request = provider.requests[before];
    expect(request?.body.toString('utf8')).toBe(RAW);
    expect(request?.header('content-length')).toBe(String(Buffer.byteLength(RAW)));
    expect(request?.header('x-first')).toBe('one');
    expect(request?.header('x-second')).toBe('two');
    expect(request?.header('authorization')).toBe(`Bearer ${KEY}`);
    const questions = asked(system, { runId: run.id, port: 'llm/stream' });
    expect(questions.map(({ plugin }) => plugin)).toEqual(['10-first', '20-second']);
    // The second got the first's text as it was.
    expect(questions[1]?.payload).toContain(RAW);
    expect(Object.keys((JSON.parse(questions[0]?.payload ?? '') as { headers: object }).headers)).toEqual(
      expect.arrayContaining(['content-type', 'user-agent']),
    );
    for (const line of asked(system)) {
      const text = JSON.stringify(line).toLowerCase();
      expect(text).not.toContain(KEY);
      expect(text).not.toContain('authorization');
      expect(text).not.toContain(system.key.toLowerCase());
    }
    expect(await tablesWith(KEY)).toEqual([]);
    expect(logs()).not.toContain(KEY);
  });

  it('keeps its exact bytes when a plugin changes a header only, and credentials and framing are not settable', async () => {
    const before = provider.requests.length;
    const headers = {
      authorization: 'Bearer stolen',
      'content-length': '3',
      host: 'evil.test',
      'x-api-key': 'k',
      'x-ok': '1',
    };
    const run = await start('é "quoted" \u{1f511}', {
      '10-first': { 'llm/stream': { raw: JSON.stringify({ headers }) } },
    });
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    const request = provider.requests[before];
    const [question] = asked(system, { runId: run.id, port: 'llm/stream', plugin: '10-first' });
    const sent = question?.payload ?? '';
    const body = sent.slice(sent.indexOf(',"body":') + ',"body":'.length, -1);
    expect(JSON.parse(body)).toMatchObject({ model: 'recorded', temperature: 0.5, stream: true });
    expect(request?.body.toString('utf8')).toBe(body);
    expect(request?.header('x-ok')).toBe('1');
    expect(request?.header('authorization')).toBe(`Bearer ${KEY}`);
    expect(request?.header('content-length')).toBe(String(Buffer.byteLength(body)));
    expect(request?.header('host')).toBe(`127.0.0.1:${provider.port}`);
    expect(request?.header('x-api-key')).toBeUndefined();
    const record = (await hookRecords(system, { runId: run.id })).find(
      ({ gate, hook }) => gate === 'beforeProviderRequest' && hook === '10-first',
    );
    for (const refused of ['authorization', 'content-length', 'host', 'x-api-key']) {
      expect(record?.reason).toContain(`"${refused}" refused`);
    }
  });

  it('is shown again for every attempt, the context is not', async () => {
    const before = provider.requests.length;
    provider.script(failsWith(500), failsWith(503), says('third time lucky'));
    const run = await start('retry', { '10-first': { 'llm/stream': { change: { headers: { 'x-again': 'yes' } } } } });
    expect((await system.waitForEnd(run.id)).status).toBe('completed');
    const requests = provider.requests.slice(before);
    expect(requests.map((request) => request.header('x-again'))).toEqual(['yes', 'yes', 'yes']);
    const ports = asked(system, { runId: run.id, plugin: '10-first' }).map(({ port }) => port);
    expect(ports.filter((port) => port === 'llm/stream')).toHaveLength(3);
    expect(ports.filter((port) => port === 'agent/request')).toHaveLength(1);
  });

  it('is never shown for the fake provider', async () => {
    const run = await system.runToEnd('hello', {
      metadata: tell({ '10-first': { 'llm/stream': { change: { headers: { 'x-a': '1' } } } } }),
    });
    expect(run.status).toBe('completed');
    const ports = asked(system, { runId: run.id, plugin: '10-first' }).map(({ port }) => port);
    expect(ports).toEqual(['agent/pre-step', 'agent/request']);
    expect((await hookRecords(system, { runId: run.id })).map(({ gate }) => gate)).not.toContain(
      'beforeProviderRequest',
    );
  });
});
