import { gateTable } from './gate-table.mjs';
import { say } from './output.mjs';

const AGENT = 'demonstration';
const FAKE_KEY = 'AKIAIOSFODNN7EXAMPLE';
const ENDED = new Set(['completed', 'failed', 'cancelled', 'timed_out', 'blocked']);
const RUN_MS = 60_000;

/**
 * One run on real parts: a message that holds a secret, a model that wants to do something a policy forbids.
 * Prints what was stored, what the model got, what was vetoed and every gate. @returns false when a step did not happen,
 * undefined when the agent it needs is not configured.
 */
export async function demonstrate({ url, key }) {
  const api = apiOf(url, key);
  const { items: agents } = await api('GET', '/v1/agents');
  if (!agents.some(({ name }) => name === AGENT)) {
    say(`no demonstration: CODEDOCK_PROFILES_FILE has no agent "${AGENT}"`);
    return undefined;
  }
  const steps = [];
  const step = (name, happened, shown) => {
    steps.push(happened);
    say(`${happened ? '✓' : '✗'} ${name}${shown === undefined ? '' : `\n    ${shown}`}`);
  };

  const content = `Please remember how to clean up. My key is ${FAKE_KEY}.`;
  say(`\ndemonstration: one run through every gate of real plugin processes\n\nsent:\n    ${content}`);
  const session = await api('POST', '/v1/sessions', { title: 'demonstration' });
  const started = await api('POST', `/v1/sessions/${session.id}/runs`, { content, agent: AGENT });
  const run = await untilEnded(api, started.runId);

  const { items: messages } = await api('GET', `/v1/sessions/${session.id}/messages`);
  const stored = messages.find(({ role }) => role === 'user')?.content.text ?? '';
  step('the secret was taken out before anything was stored', stored !== '' && !stored.includes(FAKE_KEY), stored);

  const { items: events } = await api('GET', `/v1/sessions/${session.id}/event-log?after=0&limit=500`);
  const replies = events.filter(({ type }) => type === 'assistant.completed');
  const seen = replies.at(-1)?.payload.message.content.text ?? '';
  step(
    'the model got the same text and nothing else',
    seen.includes(stored) && !JSON.stringify(events).includes(FAKE_KEY),
    seen,
  );

  const veto = events.find(({ type, payload }) => type === 'tool.execution_result' && payload.state === 'blocked');
  const executed = events.some(
    ({ type, payload }) => type === 'tool.execution_started' && payload.callId === veto?.payload.callId,
  );
  step(
    `a tool call was vetoed by a policy and never executed`,
    veto !== undefined && !executed,
    veto &&
      `${veto.payload.tool}: ${veto.payload.result.error ?? JSON.stringify(veto.payload.result.output)} (${veto.payload.by ?? veto.payload.source})`,
  );

  step('the run ended in good order', run.status === 'completed', `${run.status}, ${run.stopReason}`);

  const trace = await api('GET', `/v1/runs/${started.runId}/trace`);
  step('every gate is in the audit', trace.gates?.length > 0, undefined);
  say(`\n${gateTable(trace.gates ?? [])}\n`);

  if (process.env.OPENAI_API_KEY) await askRealModel(api, step);
  return steps.every(Boolean);
}

async function askRealModel(api, step) {
  const session = await api('POST', '/v1/sessions', { title: 'demonstration' });
  const started = await api('POST', `/v1/sessions/${session.id}/runs`, { content: 'Say hello in one short sentence.' });
  const run = await untilEnded(api, started.runId);
  const { items: messages } = await api('GET', `/v1/sessions/${session.id}/messages`);
  const answer = messages.findLast(({ role }) => role === 'assistant')?.content.text;
  step(
    'the model behind OPENAI_BASE_URL answered',
    run.status === 'completed',
    answer ?? `${run.status}: ${run.message ?? run.stopReason}`,
  );
}

async function untilEnded(api, runId) {
  const deadline = performance.now() + RUN_MS;
  for (;;) {
    const run = await api('GET', `/v1/runs/${runId}`);
    if (ENDED.has(run.status)) return run;
    if (performance.now() > deadline)
      throw new Error(`the demonstration run is still ${run.status} after ${RUN_MS / 1000} s.`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

function apiOf(url, key) {
  return async (method, path, body) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok)
      throw new Error(`${method} ${path} answered ${response.status}: ${answer.detail ?? JSON.stringify(answer)}`);
    return answer;
  };
}
