import path from 'node:path';
import { startProcess } from '@codedock/testkit';

/** Who sends what: a line to a process of clients. */
export interface FloodOrder {
  readonly tenants: readonly FloodingTenant[];
  readonly urls: readonly string[];
}

export interface FloodingTenant {
  readonly key: string;
  /** A session for each of its runs. */
  readonly sessions: readonly string[];
  /** Requests at the same time. */
  readonly clients: number;
}

/** What came of sending. */
export interface FloodReport {
  readonly runIds: readonly string[];
  /** From sending to the answer 201, milliseconds. */
  readonly acceptMs: readonly number[];
  /** Answers that told a client to come back later. */
  readonly refused: number;
}

/** Sends every run of the tenants from processes of clients, and resolves when all are accepted. */
export async function floodFrom(
  processes: number,
  { tenants, urls }: FloodOrder,
  timeoutMs: number,
): Promise<FloodReport> {
  const reports = await Promise.all(
    Array.from({ length: processes }, async (_, index): Promise<FloodReport> => {
      const share = tenants.map(({ key, sessions, clients }) => ({
        key,
        sessions: sessions.filter((_, session) => session % processes === index),
        clients: Math.ceil(clients / processes),
      }));
      const running = await startProcess({
        name: `flooding-clients-${index}`,
        command: process.execPath,
        args: [path.join(__dirname, '..', 'programs', 'flooding-clients-process.js')],
        stdin: 'pipe',
      });
      try {
        running.stdin?.write(`${JSON.stringify({ tenants: share, urls } satisfies FloodOrder)}\n`);
        const [line] = await Promise.race([
          running.waitForOutput(/^\{.*\}\n/s, timeoutMs),
          running.exited.then(() => {
            throw new Error(`${running.name} has ended: ${running.stderr()}`);
          }),
        ]);
        return JSON.parse(line) as FloodReport;
      } finally {
        await running.kill();
      }
    }),
  );
  return {
    runIds: reports.flatMap(({ runIds }) => runIds),
    acceptMs: reports.flatMap(({ acceptMs }) => acceptMs),
    refused: reports.reduce((sum, { refused }) => sum + refused, 0),
  };
}
