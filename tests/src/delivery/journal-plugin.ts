import { appendFileSync } from 'node:fs';
import { serve } from '@codedock/plugin-sdk';

const { file, events } = JSON.parse(process.env['CODEDOCK_PLUGIN_CONFIG'] ?? '{}');

// Writes down what it has handled, one line an event. Processes of one plugin share the file.
serve({
  name: 'journal',
  version: '1.0.0',
  capabilities: [],
  onLedgerNotify: {
    events,
    handler: ({ eventId, sessionId, seq, event }) =>
      appendFileSync(file, `${JSON.stringify({ eventId, sessionId, seq, event, pid: process.pid })}\n`),
  },
});
