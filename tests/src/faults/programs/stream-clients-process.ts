// Many cheap readers of event streams in one process: each keeps the last number it has seen and nothing else, comes back
// with it to the next gateway in turn, and counts every number that is missing or comes twice.
import { type ClientRequest, request } from 'node:http';
import { createInterface } from 'node:readline';
import type { CrowdCommand, CrowdReport } from '../clients/stream-crowd.js';

/** Before a client that was cut off comes back: long enough to be no busy loop. */
const COME_BACK_MS = 100;

const urls: string[] = [];
let turn = 0;
let closing = false;
const report: CrowdReport = { gaps: [], dups: [], connections: 0, drops: 0, frames: 0, catchUpMs: [], answers: {} };

/** One reader of one session. */
class Reader {
  /** Newest number seen. */
  seq = 0;
  private sent: ClientRequest | undefined;
  /** When the last connection was lost; what happened since then has to be caught up with. */
  private lostAt: number | undefined;
  /** When the present connection was opened; 0 before the first. */
  private backAt = 0;
  private missed = false;
  private caughtUpAt: number | undefined;

  constructor(
    readonly sessionId: string,
    private readonly key: string,
    /** Reads until it has so much, then no more; the connection stays open. Undefined: reads on. */
    private readonly stallAfterBytes: number | undefined,
  ) {}

  /** Ends the connection as a broken network does. */
  drop(): void {
    report.drops += 1;
    this.sent?.destroy();
  }

  close(): void {
    this.sent?.destroy();
  }

  async follow(): Promise<void> {
    while (!closing) {
      await this.connect();
      // Who does not read learns nothing of the end of a connection, and does not come back.
      if (this.stallAfterBytes !== undefined && this.backAt > 0) return;
      this.lostAt ??= Date.now();
      await delay(COME_BACK_MS + Math.random() * COME_BACK_MS);
    }
  }

  private connect(): Promise<void> {
    const url = urls[turn % Math.max(1, urls.length)];
    turn += 1;
    if (url === undefined) return delay(COME_BACK_MS);
    return new Promise((resolve) => {
      const sent = request(`${url}/v1/sessions/${this.sessionId}/events`, {
        agent: false,
        headers: {
          authorization: `Bearer ${this.key}`,
          accept: 'text/event-stream',
          ...(this.seq === 0 ? {} : { 'last-event-id': String(this.seq) }),
        },
      });
      this.sent = sent;
      sent.once('error', () => {
        count('broken');
        resolve();
      });
      sent.once('response', (response) => {
        count(String(response.statusCode));
        if (response.statusCode !== 200) {
          response.resume();
          const after = Number(response.headers['retry-after'] ?? 1);
          response.once('close', () => void delay(after * 1_000).then(resolve));
          return;
        }
        report.connections += 1;
        this.backAt = Date.now();
        let rest = '';
        let bytes = 0;
        let frame: Frame = { id: undefined, data: '' };
        response.setEncoding('latin1').on('data', (chunk: string) => {
          bytes += chunk.length;
          if (this.stallAfterBytes !== undefined && bytes > this.stallAfterBytes) {
            response.pause();
            return;
          }
          const lines = (rest + chunk).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) {
            if (line.startsWith('id: ')) frame.id = Number(line.slice(4));
            else if (line.startsWith('data: ')) frame.data = line;
            else if (line === '') {
              // Only a whole frame counts: a connection may break in the middle of one.
              this.take(frame);
              frame = { id: undefined, data: '' };
            }
          }
        });
        response.once('error', () => undefined);
        response.once('close', resolve);
      });
      sent.end();
    });
  }

  private take({ id, data }: Frame): void {
    if (id === undefined) return;
    report.frames += 1;
    if (id <= this.seq) report.dups.push(`${this.sessionId}: ${id} after ${this.seq}`);
    else if (id > this.seq + 1) report.gaps.push(`${this.sessionId}: ${id} after ${this.seq}`);
    this.seq = Math.max(this.seq, id);
    if (this.lostAt !== undefined) this.catchUp(data);
  }

  private catchUp(data: string): void {
    const at = Date.parse(/"occurredAt":"([^"]+)"/.exec(data)?.[1] ?? '');
    if (at <= this.backAt) {
      this.missed ||= at >= (this.lostAt ?? 0);
      if (this.missed) this.caughtUpAt = Date.now();
      return;
    }
    if (this.missed) report.catchUpMs.push((this.caughtUpAt ?? Date.now()) - (this.lostAt ?? 0));
    this.lostAt = undefined;
    this.missed = false;
    this.caughtUpAt = undefined;
  }
}

interface Frame {
  id: number | undefined;
  data: string;
}

function count(answer: string): void {
  report.answers[answer] = (report.answers[answer] ?? 0) + 1;
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function say(what: unknown): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

const readers: Reader[] = [];

function obey(command: CrowdCommand): void {
  switch (command.do) {
    case 'know':
      urls.splice(0, urls.length, ...command.urls);
      return;
    case 'follow':
      for (let index = 0; index < command.clients; index += 1) {
        const sessionId = command.sessions[index % command.sessions.length] ?? '';
        const reader = new Reader(sessionId, command.key, command.stallAfterBytes);
        readers.push(reader);
        void reader.follow();
      }
      return;
    case 'drop':
      for (let dropped = 0; dropped < command.clients; dropped += 1) {
        readers[Math.floor(Math.random() * readers.length)]?.drop();
      }
      return;
    case 'tell': {
      const behind = readers.filter(({ sessionId, seq }) => seq < (command.lastSeqs[sessionId] ?? 0)).length;
      say({ ask: command.ask, behind, report });
      return;
    }
  }
}

createInterface({ input: process.stdin }).on('line', (line) => obey(JSON.parse(line) as CrowdCommand));
process.stdin.once('end', () => {
  closing = true;
  for (const reader of readers) reader.close();
  process.exit(0);
});
say({ ready: true });
