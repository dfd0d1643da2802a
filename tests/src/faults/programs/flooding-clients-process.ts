// Clients that send a run each to many sessions, as fast as they are answered, over connections that are kept. What is
// refused is sent again when the answer says so, as the same request.
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { FloodOrder, FloodReport } from '../clients/flooding.js';

const BODY = '{"content":"hello"}';

interface Answer {
  readonly status: number;
  readonly retryAfter: number;
  readonly text: string;
}

async function flood({ tenants, urls }: FloodOrder): Promise<FloodReport> {
  const report = { runIds: [] as string[], acceptMs: [] as number[], refused: 0 };
  const agent = new Agent({ keepAlive: true });
  const lanes = tenants.flatMap(({ key, sessions, clients }) => {
    const waiting = [...sessions];
    return Array.from({ length: clients }, async (_, client) => {
      const url = urls[client % urls.length];
      for (let session = waiting.pop(); session !== undefined; session = waiting.pop()) {
        await sendOne(`${url}/v1/sessions/${session}/runs`, key);
      }
    });
  });

  async function sendOne(url: string, key: string): Promise<void> {
    const idempotencyKey = randomUUID();
    for (;;) {
      const began = performance.now();
      const { status, retryAfter, text } = await post(agent, url, key, idempotencyKey);
      if (status === 201) {
        report.acceptMs.push(Math.round((performance.now() - began) * 10) / 10);
        report.runIds.push((JSON.parse(text) as { runId: string }).runId);
        return;
      }
      if (status !== 429) throw new Error(`a run was answered ${status} ${text}`);
      report.refused += 1;
      await delay(retryAfter * 1_000);
    }
  }

  await Promise.all(lanes);
  agent.destroy();
  return report;
}

function post(agent: Agent, url: string, key: string, idempotencyKey: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-length': BODY.length,
      'idempotency-key': idempotencyKey,
    };
    const sent = request(url, { agent, method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('error', reject);
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, retryAfter: Number(response.headers['retry-after'] ?? 1), text }),
      );
    });
    sent.once('error', reject);
    sent.end(BODY);
  });
}

createInterface({ input: process.stdin }).once('line', (line) => {
  flood(JSON.parse(line) as FloodOrder).then(
    (report) => process.stdout.write(`${JSON.stringify(report)}\n`),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      process.exit(1);
    },
  );
});
