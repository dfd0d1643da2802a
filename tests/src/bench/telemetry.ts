// What tracing costs a run, and what a collector that fails costs it: the same runs, one by one, in turns on systems that
// differ in nothing else. Times are from the POST to the last event on the stream; memory is what gateway and runner have
// grown by, resident, from the end of the warm-up on; dropped are the spans that both counted as such.
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { freePort, openEventStream, type TestProcess } from '@codedock/testkit';
import { startTraceReceiver } from '@codedock/trace-receiver';
import { JsonClient } from './json-client.js';
import { type RunSystem, startRunSystem } from './run-system.js';
import { median, percentile, printTable, rounded } from './statistics.js';

const asJson = process.argv.includes('--json');
const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 8 : 40;
const PER_ROUND = 10;
const TEXT = `fake:${JSON.stringify([{ toolCalls: [{ name: 'ping', arguments: {} }] }, { text: 'pong it is' }])}`;

/** One way to trace. */
interface Subject {
  readonly name: string;
  readonly system: RunSystem;
  readonly client: JsonClient;
  readonly processes: readonly TestProcess[];
  /** Resident KiB of the processes at the end of the warm-up. */
  residentKib: number;
  /** Milliseconds of each run that counts. */
  readonly times: number[];
}

/** One subject's figures, as printed with --json; ratios are to the system without tracing in the same rounds. */
interface Figures {
  readonly collector: string;
  readonly p50_ms: number;
  readonly p99_ms: number;
  /** Median over the rounds of the ratio of their medians. */
  readonly p50_ratio: number;
  readonly p99_ratio: number;
  /** MiB that gateway and runner have grown by together. */
  readonly rss_growth_mib: number;
  readonly spans_dropped: number;
}

async function main(): Promise<void> {
  const closing: (() => unknown)[] = [];
  try {
    const receiver = await startTraceReceiver();
    closing.push(() => receiver.close());
    const serve = async (behaviour: RequestListener) => {
      const server = createServer(behaviour);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      closing.push(
        () => server.close(),
        () => server.closeAllConnections(),
      );
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    };
    const collectors: Record<string, string | undefined> = {
      'no tracing': undefined,
      works: receiver.url,
      'is down': `http://127.0.0.1:${await freePort()}`,
      'never answers': await serve((request) => request.resume()),
      'answers after 1 s': await serve(answersLate),
      'never stops answering': await serve(neverStops),
    };
    const subjects: Subject[] = [];
    for (const [name, endpoint] of Object.entries(collectors)) {
      const system = await startRunSystem(undefined, endpoint === undefined ? {} : tracedTo(endpoint));
      closing.push(() => system.stop());
      const processes = [system.gateway, await system.startRunner()];
      const client = new JsonClient(system.url, system.key);
      closing.push(() => client.close());
      subjects.push({ name, system, client, processes, residentKib: 0, times: [] });
    }
    // The first round warms up; whatever else the machine does falls on all of them alike.
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const subject of subjects) {
        const times = await oneByOne(subject);
        if (round > 0) subject.times.push(...times);
        else subject.residentKib = residentKib(subject.processes);
      }
    }
    const figures = await Promise.all(subjects.map((subject) => figuresOf(subject, subjects[0] as Subject)));
    printTable(
      ['collector', 'p50 ms', 'p99 ms', 'p50 ratio', 'p99 ratio', 'RSS + MiB', 'dropped'],
      figures.map((one) => Object.values(one)),
    );
    if (asJson) console.log(JSON.stringify(figures));
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

function tracedTo(endpoint: string): Record<string, string> {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_METRICS_EXPORTER: 'none',
    OTEL_BSP_SCHEDULE_DELAY: '500',
  };
}

const answersLate: RequestListener = (request, response) => {
  request.resume();
  setTimeout(() => response.end('{}'), 1_000);
};

/** Hostile: a failure whose body has no end. */
const neverStops: RequestListener = (request, response) => {
  request.resume();
  response.writeHead(500);
  const more = setInterval(() => {
    if (!response.writableNeedDrain) response.write('x'.repeat(64 * 1024));
  }, 10);
  response.on('close', () => clearInterval(more));
  response.on('error', () => undefined);
};

function residentKib(processes: readonly TestProcess[]): number {
  return processes.reduce((sum, { pid }) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return sum + Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  }, 0);
}

/** Spans that the processes of a system have counted as dropped. */
async function spansDropped({ metricsUrls }: RunSystem): Promise<number> {
  const texts = await Promise.all(metricsUrls.map(async (url) => (await fetch(url)).text()));
  const counts = texts.join('\n').matchAll(/^codedock_telemetry_spans_dropped_total\{[^}]*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function oneByOne({ system, client }: Subject): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < PER_ROUND; n += 1) {
    const { id } = await client.post<{ id: string }>('/v1/sessions', {});
    const stream = await openEventStream(`${system.url}/v1/sessions/${id}/events`, {
      headers: { authorization: `Bearer ${system.key}` },
    });
    const begin = performance.now();
    const posted = client.post(`/v1/sessions/${id}/runs`, { content: TEXT });
    times.push((await stream.waitFor(({ event }) => event === 'run.completed')).at - begin);
    await posted;
    stream.close();
  }
  return times;
}

async function figuresOf(subject: Subject, base: Subject): Promise<Figures> {
  const { name, system, processes, times } = subject;
  const rounds = Array.from({ length: ROUNDS }, (_, round) => {
    const of = (all: readonly number[]) => median(all.slice(round * PER_ROUND, (round + 1) * PER_ROUND));
    return of(times) / of(base.times);
  });
  return {
    collector: name,
    p50_ms: rounded(median(times)),
    p99_ms: rounded(percentile(times, 0.99)),
    p50_ratio: rounded(median(rounds)),
    p99_ratio: rounded(percentile(times, 0.99) / percentile(base.times, 0.99)),
    rss_growth_mib: rounded((residentKib(processes) - subject.residentKib) / 1024),
    spans_dropped: await spansDropped(system),
  };
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
