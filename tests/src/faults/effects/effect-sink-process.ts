// The outside world that tools act on: appends each effect to a file, waits for the disk, and only then answers. A process
// of its own, so that whatever is killed beside it, what happened stays known.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const file = process.argv[2];
if (file === undefined) throw new Error('Give the file that effects are appended to.');
const effects = openSync(file, 'a', 0o600);
const held = new Map<string, Set<ServerResponse>>();

interface Effect {
  readonly tool: string;
  readonly callId: string;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly args: { readonly hold?: boolean; readonly waitMs?: number };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const effect = JSON.parse(await bodyOf(request)) as Effect;
  writeSync(effects, `${JSON.stringify({ ...effect, at: Date.now() })}\n`);
  fsyncSync(effects);
  const answer = () => response.end('{"done":true}');
  // Only the first execution of a call waits: whoever repeats one wants an end.
  if (effect.args.hold === true && effect.attempt === 1) {
    const waiting = held.get(effect.callId) ?? new Set();
    held.set(effect.callId, waiting.add(response));
    response.once('close', () => waiting.delete(response));
  } else if (effect.args.waitMs === undefined) answer();
  else setTimeout(answer, effect.args.waitMs);
}

/** Lets the held call answer; all held calls for `*`. */
function release(callId: string): void {
  for (const [id, waiting] of held) {
    if (callId !== '*' && callId !== id) continue;
    for (const response of waiting) response.end('{"done":true}');
    held.delete(id);
  }
}

const server = createServer((request, response) => {
  const [, what, id] = (request.url ?? '').split('/');
  if (what === 'effects') {
    take(request, response).catch((error: unknown) => {
      response.statusCode = 500;
      response.end(String(error));
    });
  } else if (what === 'release' && id !== undefined) {
    release(id);
    response.end('{}');
  } else {
    response.statusCode = 404;
    response.end();
  }
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`effects at http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.once('SIGTERM', () => {
  server.closeAllConnections();
  server.close(() => {
    closeSync(effects);
    process.exit(0);
  });
});
