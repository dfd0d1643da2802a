// What `helm test` does: one real run through gateway, queue, runner and plugins, and its end read back.
import { readFile } from 'node:fs/promises';

const { GATEWAY, AGENT, TIMEOUT_SECONDS, API_KEY_FILE } = process.env;
const key = (await readFile(API_KEY_FILE, 'utf8')).trim();
const deadline = Date.now() + Number(TIMEOUT_SECONDS) * 1000;
const ENDS = ['completed', 'failed', 'cancelled', 'timed_out', 'blocked'];

async function call(method, path, body) {
  const answer = await answerOf(method, path, body);
  const text = await answer.text();
  // Not ready yet: a plugin that starts, a database that fails over.
  if (answer.status === 503 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    return call(method, path, body);
  }
  if (!answer.ok) throw new Error(`${method} ${path} was answered with ${answer.status}: ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

function answerOf(method, path, body) {
  return fetch(`${GATEWAY}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  });
}

const session = await call('POST', '/v1/sessions', {});
const started = await call('POST', `/v1/sessions/${session.id}/runs`, {
  content: 'Say hello.',
  ...(AGENT ? { agent: AGENT } : {}),
});
if (started.runId === null) {
  console.log('A policy handled the message; no run was needed.');
  process.exit(0);
}
let run = started.run;
do {
  if (Date.now() > deadline) {
    console.error(`Run ${started.runId} is still "${run.status}" after ${TIMEOUT_SECONDS} s. "queued": no runner takes runs; see their readiness.`);
    process.exit(1);
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
  run = await call('GET', `/v1/runs/${started.runId}`);
} while (!ENDS.includes(run.status));
console.log(`Run ${run.id}: ${run.status}${run.stopReason ? ` (${run.stopReason})` : ''}.`);
process.exit(run.status === 'completed' ? 0 : 1);
