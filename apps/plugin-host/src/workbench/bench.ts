import { type Port, plugin } from '@codedock/proto';
import type { Floor } from './floor-call.js';
import type { HostedFolder } from './hosted-folder.js';

/** What a port costs, in milliseconds. */
export interface PortFigures {
  readonly port: Port;
  readonly calls: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  /** The bare call of the same turns. */
  readonly floor_p50_ms: number;
  readonly floor_p99_ms: number;
  /** p50 over the floor's p50. */
  readonly ratio: number;
}

const gateMs = 10_000;

/**
 * Asks the gate of one port again and again, one call after the other, in turns with a bare call of the same size: both
 * meet the same machine. A tenth of the calls, at least ten, come before and are not counted. @throws Error where the
 * plugin fails.
 */
export async function benchPort(
  hosted: HostedFolder,
  floor: Floor,
  question: { readonly port: Port; readonly envelope: plugin.Envelope; readonly toolName: string },
  calls: number,
): Promise<PortFigures> {
  const { port, envelope, toolName } = question;
  const bytes = Buffer.from(plugin.Envelope.encode(envelope).finish());
  const gate = async () => {
    const { outcomes, failure } = await hosted.gate(port, envelope, { budgetMs: gateMs, toolName });
    const [outcome] = outcomes;
    if (failure !== undefined || outcome === undefined)
      throw new Error(`the plugin failed on ${port}: ${failure?.reason ?? 'it was not asked'}`);
  };
  const asked: number[] = [];
  const bare: number[] = [];
  const warmUp = Math.max(10, Math.ceil(calls / 10));
  for (let turn = -warmUp; turn < calls; turn += 1) {
    const floorMs = await timed(() => floor.call(bytes));
    const gateTook = await timed(gate);
    if (turn < 0) continue;
    bare.push(floorMs);
    asked.push(gateTook);
  }
  const p50 = percentile(asked, 0.5);
  const floorP50 = percentile(bare, 0.5);
  return {
    port,
    calls,
    p50_ms: rounded(p50),
    p99_ms: rounded(percentile(asked, 0.99)),
    floor_p50_ms: rounded(floorP50),
    floor_p99_ms: rounded(percentile(bare, 0.99)),
    ratio: rounded(p50 / floorP50),
  };
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await act();
  return performance.now() - begin;
}

function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}
