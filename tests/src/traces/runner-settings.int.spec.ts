import { expectNoLeftovers } from '@codedock/testkit';
import { startTraceReceiver, type TraceReceiver } from '@codedock/trace-receiver';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';
import { expectTraces, exportTo } from './collected.js';

/** What nobody may see, and what is there to be seen. */
const SECRET = 'sk-proj-abcdefghijklmnop123';
const SAID = 'the words of the model';

let receiver: TraceReceiver;
let system: System;

beforeAll(async () => {
  receiver = await startTraceReceiver();
  system = await startSystem({
    env: exportTo(receiver),
    runnerEnv: { CODEDOCK_TRACE_RUNS: 'child', OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true' },
  });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await receiver?.close();
  await expectNoLeftovers();
});

test("a run is a child in the request's trace, and its spans hold what was said without what looks like a secret", async () => {
  const run = await system.runToEnd(
    fakeScript({ text: `${SAID} ${SECRET}`, toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'done' }),
  );
  await expectTraces(receiver, run.id, [
    'gateway: POST /v1/sessions/:sessionId/runs',
    '  gateway: run enqueue',
    '    runner: run execute',
    '      runner: turn 1',
    '        runner: chat fake',
    '        runner: execute_tool ping',
    '      runner: turn 2',
    '        runner: chat fake',
  ]);
  const spans = receiver.spansOfRun(run.id);
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  const of = (name: string) => spans.filter((span) => span.name === name).map(({ attributes }) => attributes);
  expect(of('run execute')).toEqual([expect.objectContaining({ 'codedock.run.attempt': 1 })]);

  const [first, second] = of('chat fake');
  const parsed = (value: unknown) => JSON.parse(String(value)) as unknown;
  expect(parsed(first?.['gen_ai.output.messages'])).toEqual([
    {
      role: 'assistant',
      parts: [
        { type: 'text', content: `${SAID} [redacted]` },
        { type: 'tool_call', name: 'ping', arguments: {} },
      ],
    },
  ]);
  expect(parsed(second?.['gen_ai.input.messages'])).toEqual(
    expect.arrayContaining([{ role: 'assistant', parts: [{ type: 'text', content: `${SAID} [redacted]` }] }]),
  );
  expect(first).toHaveProperty(['gen_ai.system_instructions']);
  const [executed] = of('execute_tool ping');
  expect(parsed(executed?.['gen_ai.tool.call.arguments'])).toEqual({});
  expect(executed?.['gen_ai.tool.call.result']).toEqual(expect.stringMatching(/./));
  expect(JSON.stringify(receiver.spans())).not.toContain(SECRET);
});
