#!/usr/bin/env node
// A plugin that speaks NDJSON: before each run it stores at the host the trace it was asked in, and lets the run go on.
const { createInterface } = require('node:readline');

const send = (frame) => process.stdout.write(`${JSON.stringify(frame)}\n`);
const stages = new Map();

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'handshake')
    send({ id, result: { sdk_version: params.core_version, plugin_name: params.plugin_name } });
  else if (method === 'plugin.start') {
    send({ id: 1, method: 'stage.register', params: { stage: 'agent/pre-step' } });
    send({ id, result: {} });
  } else if (method === 'stage.invoke') {
    const { session_id, traceparent } = params.envelope;
    stages.set(id + 1000, id);
    send({ id: id + 1000, method: 'memory.upsert', params: { session_id, name: 'trace', text: traceparent } });
  } else if (method !== undefined) send({ id, result: {} });
  else if (stages.has(id)) send({ id: stages.get(id), result: { envelope: {} } });
});
