import { serve } from '@codedock/plugin-sdk';

// Hears what the asker emits and, with the capability to act in the background, notes it in the session.
serve({
  name: 'listener',
  version: '1.0.0',
  capabilities: ['background'],
  onLedgerNotify: {
    'scan.found': (notice) =>
      notice.host.appendNotice({ sessionId: notice.sessionId }, `heard ${JSON.stringify(notice.payload)}`),
  },
});
