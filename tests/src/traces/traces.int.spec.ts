import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { spanIdsOf } from '@codedock/platform';
import {
  eventually,
  eventuallyDefined,
  expectNoLeftovers,
  type RecordingProvider,
  recordingProvider,
  repositoryRoot,
  says,
  writePlugin,
} from '@codedock/testkit';
import { type ReceivedSpan, startTraceReceiver, type TraceReceiver } from '@codedock/trace-receiver';
import { fakeScript, type RunView, START_MS, type System, startSystem, waitForPlugins } from '../system.js';
import { expectTraces, exportTo } from './collected.js';

const SOURCES = path.join(repositoryRoot(), 'tests/src/traces');
const OTEL = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_BSP_SCHEDULE_DELAY'];
/** What nobody but the model and its user is to see. */
const CANARY = 'canary-in-the-words';
const ONE_CALL = fakeScript({ text: CANARY, toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'done' });

let receiver: TraceReceiver;
let provider: RecordingProvider;
let system: System;

beforeAll(async () => {
  receiver = await startTraceReceiver();
  provider = await recordingProvider();
  system = await startSystem({
    env: { ...exportTo(receiver), CODEDOCK_LEASE_TTL: '5s', CODEDOCK_LEASE_HEARTBEAT: '1s' },
    plugins: async (root) => {
      await writePlugin(root, 'traced', {
        source: readFileSync(path.join(SOURCES, 'traced-plugin.ts'), 'utf8'),
        pluginJson: { env: OTEL, match: { agents: ['default', 'recorded'] } },
      });
      await writePlugin(root, 'hanging', {
        source: readFileSync(path.join(SOURCES, 'traced-plugin.ts'), 'utf8').replaceAll('traced', 'hanging'),
        pluginJson: { env: OTEL, match: { agents: ['hung'] }, timeoutMs: 500 },
      });
      const lines = path.join(root, 'lines');
      mkdirSync(lines);
      copyFileSync(path.join(SOURCES, 'lines-plugin.cjs'), path.join(lines, 'lines'));
      chmodSync(path.join(lines, 'lines'), 0o755);
      writeFileSync(
        path.join(lines, 'plugin.json'),
        JSON.stringify({ transport: 'stdio', match: { agents: ['simple'] } }),
      );
    },
    agents: [
      { name: 'recorded', model: { provider: 'openai', name: 'recorded' } },
      { name: 'hung', model: { provider: 'fake', name: 'fake' }, tools: ['ping'] },
      { name: 'simple', model: { provider: 'fake', name: 'fake' } },
    ],
    runnerEnv: {
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: provider.baseUrl,
      CODEDOCK_PROVIDER_ALLOW_PRIVATE: 'true',
      // A turn that hangs is handed over soon.
      RUNNER_DRAIN_TIMEOUT: '500ms',
    },
  });
  await waitForPlugins(system);
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await provider?.close();
  await receiver?.close();
  await expectNoLeftovers();
});

const started = async (content: string, more: Record<string, unknown> = {}): Promise<RunView> =>
  system.startRun(await system.createSession(), { content, ...more });

const inside = (lines: readonly string[]) => lines.map((line) => `  ${line}`);

/** A gate that a plugin was asked at, from the caller to the plugin's process. */
function gate(
  service: string,
  name: string,
  port: string,
  within: readonly string[] = [],
  plugin = 'traced',
): string[] {
  return [
    `${service}: gate ${name}`,
    `  ${service}: grpc.codedock.gate.v1.GateService/Dispatch`,
    '    plugin-host: grpc.codedock.gate.v1.GateService/Dispatch',
    `      plugin-host: plugin ${plugin} ${port}`,
    '        plugin-host: grpc.codedock.plugin.v1.Plugin/OnEvent',
    ...inside(inside(inside(inside(inside([`plugin-${plugin}: answer ${port}`, ...inside(within)]))))),
  ];
}

const request = (plugin = 'traced') => [
  'gateway: POST /v1/sessions/:sessionId/runs',
  ...inside([...gate('gateway', 'beforeInput', 'agent/input', [], plugin), 'gateway: run enqueue']),
];

const turn = (n: number, ...within: string[]) => [
  `runner: turn ${n}`,
  ...inside([...gate('runner', 'transformContext', 'agent/request'), 'runner: chat fake', ...within]),
];

const REMEMBERED = [
  'plugin-host: grpc.codedock.plugin.v1.Host/MemoryUpsert',
  '  plugin-host: host call MemoryUpsert',
  '    plugin-host: grpc.codedock.host.v1.HostApi/MemoryUpsert',
  '      gateway: grpc.codedock.host.v1.HostApi/MemoryUpsert',
];

const named = (spans: readonly ReceivedSpan[], name: string) => spans.filter((span) => span.name === name);

test('a run is one tree from the request to the plugins and back, linked where the queue is', async () => {
  const run = await started(ONE_CALL);
  await system.waitForEnd(run.id);
  await expectTraces(receiver, run.id, [
    ...request(),
    'runner: run execute',
    ...inside([
      ...turn(1, ...gate('runner', 'beforeToolCall', 'tools/pre-execute', REMEMBERED), 'runner: execute_tool ping'),
      ...turn(2),
    ]),
  ]);
  const spans = receiver.spansOfRun(run.id);
  const [enqueue] = named(spans, 'run enqueue');
  const [execute] = named(spans, 'run execute');
  expect(execute?.links).toEqual([{ traceId: enqueue?.traceId, spanId: enqueue?.spanId }]);
  expect(execute?.attributes).toMatchObject({ 'codedock.run.attempt': 1, 'codedock.outcome': 'ended' });
  expect(named(spans, 'chat fake')[0]?.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'fake',
    'gen_ai.request.model': 'fake',
    'gen_ai.usage.input_tokens': expect.any(Number),
    'gen_ai.usage.output_tokens': expect.any(Number),
    'gen_ai.response.finish_reasons': ['tool_calls'],
  });
  expect(named(spans, 'plugin traced tools/pre-execute')[0]?.attributes).toMatchObject({
    'codedock.plugin': 'traced',
    'codedock.port': 'tools/pre-execute',
    'codedock.outcome': 'continued',
    'codedock.plugin.generation': 1,
  });
  expect(JSON.stringify(receiver.spans())).not.toContain(CANARY);
});

test('a vetoed tool has its gate and no execution', async () => {
  const run = await started(ONE_CALL, { metadata: { told: 'veto' } });
  await system.waitForEnd(run.id);
  await expectTraces(receiver, run.id, [
    ...request(),
    'runner: run execute',
    ...inside([...turn(1, ...gate('runner', 'beforeToolCall', 'tools/pre-execute')), ...turn(2)]),
  ]);
  const [asked] = named(receiver.spansOfRun(run.id), 'gate beforeToolCall');
  expect(asked).toMatchObject({ failed: false, attributes: { 'codedock.decision': 'block' } });
});

test('a run that waited for an approval is two attempts, the later one linked to the former', async () => {
  const run = await started(ONE_CALL, { metadata: { told: 'ask' } });
  await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval');
  const { body } = await system.api<{ items: { id: string; calls: { callId: string }[] }[] }>(
    'GET',
    `/v1/approvals?status=open&runId=${run.id}`,
  );
  const [approval] = body.items;
  const decisions = approval?.calls.map(({ callId }) => ({ callId, decision: 'approve' }));
  const answer = await system.api('POST', `/v1/approvals/${approval?.id}/decisions`, { decisions });
  expect(answer.status).toBe(200);
  await system.waitForEnd(run.id);
  await expectTraces(receiver, run.id, [
    ...request(),
    'runner: run execute',
    ...inside(turn(1, ...gate('runner', 'beforeToolCall', 'tools/pre-execute'))),
    'runner: run execute',
    ...inside(['runner: turn 1', '  runner: execute_tool ping', ...turn(2)]),
  ]);
  expectLinked(receiver.spansOfRun(run.id));
});

test('a run whose runner was killed goes on in a trace that is linked, and nothing hangs in the air', async () => {
  provider.script({ kind: 'hang' });
  provider.otherwise(says('here again'));
  const run = await started('go', { agent: 'recorded' });
  await provider.waitForRequest(0, 30_000);
  // What the runner has ended and not sent would be lost with it.
  const { traceId } = spanIdsOf(`run ${run.id} attempt 1`);
  const sent = () => receiver.spans().filter((span) => span.traceId === traceId);
  await eventually(() => expect(named(sent(), 'gate transformContext')).toHaveLength(1), { timeoutMs: 30_000 });
  await system.runners[0]?.kill();
  await system.startRunner();
  await system.waitForEnd(run.id, 60_000);
  const attempt = (mark: string, ...within: string[]) => [
    `runner: run execute${mark}`,
    ...inside([
      `runner: turn 1${mark}`,
      ...inside([...gate('runner', 'transformContext', 'agent/request'), ...within]),
    ]),
  ];
  await expectTraces(receiver, run.id, [...request(), ...attempt(' !'), ...attempt('', 'runner: chat recorded')]);
  const spans = receiver.spansOfRun(run.id);
  expectLinked(spans);
  const lost = named(spans, 'run execute').find(({ failed }) => failed);
  expect(lost?.attributes).toMatchObject({ 'codedock.run.attempt': 1, 'codedock.outcome': 'lost' });
}, 120_000);

test('a run that its runner hands over at SIGTERM goes on in an attempt that is linked to the former', async () => {
  const asked = provider.requests.length;
  provider.script({ kind: 'hang' });
  provider.otherwise(says('here again'));
  const run = await started('go', { agent: 'recorded' });
  await provider.waitForRequest(asked, 30_000);
  await system.runners.at(-1)?.stop(60_000);
  await system.startRunner();
  await system.waitForEnd(run.id, 60_000);
  await eventually(
    () => {
      const spans = receiver.spansOfRun(run.id);
      expectLinked(spans);
      // Its runner lived to tell: the attempt was handed back, not lost.
      const outcomes = named(spans, 'run execute').map(({ attributes }) => [
        attributes['codedock.run.attempt'],
        attributes['codedock.outcome'],
      ]);
      expect(outcomes.sort()).toEqual([
        [1, 'handed_back'],
        [2, 'ended'],
      ]);
    },
    { timeoutMs: 30_000, what: `the attempts of run ${run.id}` },
  );
}, 120_000);

test('a plugin that hangs has a span that says so, and the gate and its caller go on', async () => {
  const run = await started(ONE_CALL, { agent: 'hung', metadata: { told: 'hang' } });
  await system.waitForEnd(run.id);
  const hung = (name: string, port: string) => gate('runner', name, port, [], 'hanging');
  await eventually(
    () => {
      const spans = receiver.spansOfRun(run.id);
      const [asked] = named(spans, 'plugin hanging tools/pre-execute');
      expect(asked).toMatchObject({ failed: true, attributes: { 'codedock.outcome': 'timeout' } });
    },
    { timeoutMs: 30_000 },
  );
  const timedOut = hung('beforeToolCall', 'tools/pre-execute');
  await expectTraces(receiver, run.id, [
    ...request('hanging'),
    'runner: run execute',
    ...inside([
      'runner: turn 1',
      ...inside([
        ...hung('transformContext', 'agent/request'),
        'runner: chat fake',
        `${timedOut[0]} !`,
        ...timedOut.slice(1, 3),
        `${timedOut[3]} !`,
        `${timedOut[4]} !`,
      ]),
      'runner: turn 2',
      ...inside([...hung('transformContext', 'agent/request'), 'runner: chat fake']),
    ]),
  ]);
});

test('a plugin that speaks NDJSON is told the trace, and its call-backs belong to it without a word of its own', async () => {
  const run = await started('hello', { agent: 'simple' });
  await system.waitForEnd(run.id);
  await expectTraces(receiver, run.id, [
    'gateway: POST /v1/sessions/:sessionId/runs',
    '  gateway: run enqueue',
    'runner: run execute',
    ...inside([
      'runner: gate beforeRunStart',
      '  runner: grpc.codedock.gate.v1.GateService/Dispatch',
      '    plugin-host: grpc.codedock.gate.v1.GateService/Dispatch',
      '      plugin-host: plugin lines agent/pre-step',
      ...inside(inside(inside(inside(REMEMBERED.slice(1).map((line) => line.slice(2)))))),
      'runner: turn 1',
      '  runner: chat fake',
    ]),
  ]);
  const [asked] = named(receiver.spansOfRun(run.id), 'plugin lines agent/pre-step');
  const told = await eventuallyDefined(async () => {
    const { rows } = await system.db.query<{ text: string }>("SELECT text FROM memory WHERE name = 'trace'");
    return rows[0]?.text;
  });
  expect(told).toBe(`00-${asked?.traceId}-${asked?.spanId}-01`);
});

test('logs are one JSON object a line with the ids of the trace, plugins are named, and nobody repeats what was said', async () => {
  await system.waitForEnd((await started(ONE_CALL)).id);
  const run = await started(fakeScript({ text: CANARY, fail: 'provider_rejected' }));
  await system.waitForEnd(run.id);
  const { traceId } = spanIdsOf(`run ${run.id} attempt 1`);
  const lines = () =>
    [...system.gateways, ...system.runners, ...system.pluginHosts].flatMap((each) =>
      each
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    );
  await eventually(() =>
    expect(lines()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ app: 'runner', msg: 'run left', runId: run.id, trace_id: traceId }),
        expect.objectContaining({ app: 'plugin-host', plugin: 'traced', plugin_fields: { tool: 'ping' } }),
      ]),
    ),
  );
  const printed = [...system.gateways, ...system.runners, ...system.pluginHosts].map((each) => each.output()).join();
  expect(printed).not.toContain(CANARY);
  expect(printed).not.toContain('\u001b[31m');
  // The runners that are gone answer no more.
  const answers = await Promise.allSettled(
    system.metricsAt.map((at) => fetch(`http://${at}/metrics`, { headers: { connection: 'close' } })),
  );
  const metrics = await Promise.all(
    answers.map((answer) => (answer.status === 'fulfilled' ? answer.value.text() : '')),
  );
  expect(metrics.join()).toContain('codedock_tool_duration_count{tool="ping"');
  expect(metrics.join()).not.toContain(CANARY);
});

/** Attempts in order: each linked to the request and to the attempt before. */
function expectLinked(spans: readonly ReceivedSpan[]): void {
  const idOf = ({ traceId, spanId }: ReceivedSpan) => ({ traceId, spanId });
  const [enqueue] = named(spans, 'run enqueue');
  const [first, second] = named(spans, 'run execute').sort(
    (a, b) => Number(a.attributes['codedock.run.attempt']) - Number(b.attributes['codedock.run.attempt']),
  );
  if (enqueue === undefined || first === undefined || second === undefined) throw new Error('spans are missing');
  expect(first.links).toEqual([idOf(enqueue)]);
  expect(second.links).toEqual([idOf(enqueue), idOf(first)]);
}
