import path from 'node:path';
import { eventually, eventuallyDefined, startProcess, type TestProcess } from '@codedock/testkit';

/** A line to a process of readers. */
export type CrowdCommand =
  | { readonly do: 'know'; readonly urls: readonly string[] }
  | {
      readonly do: 'follow';
      readonly key: string;
      readonly sessions: readonly string[];
      readonly clients: number;
      readonly stallAfterBytes?: number;
    }
  | { readonly do: 'drop'; readonly clients: number }
  | { readonly do: 'tell'; readonly ask: number; readonly lastSeqs: Readonly<Record<string, number>> };

/** What readers have seen. */
export interface CrowdReport {
  /** One line for each number that was skipped, or came again. */
  gaps: string[];
  dups: string[];
  /** Streams that were opened. */
  connections: number;
  /** Connections that readers broke themselves. */
  drops: number;
  frames: number;
  /** From losing a connection to having all that happened meanwhile, where anything did. Milliseconds. */
  catchUpMs: number[];
  /** Answers by status; `broken` for requests that got none. */
  answers: Record<string, number>;
}

/** Many readers of event streams, in processes of their own. */
export interface StreamCrowd {
  /** Some readers, chosen at random, break their connection and come back. */
  drop(clients: number): void;
  /** What was seen so far. */
  report(): Promise<CrowdReport>;
  /** Resolves when every reader of each session has seen its last number. */
  until(lastSeqs: ReadonlyMap<string, number>, timeoutMs: number): Promise<CrowdReport>;
  close(): Promise<void>;
}

export interface CrowdOptions {
  readonly key: string;
  /** Shared out among the readers in turn. */
  readonly sessions: readonly string[];
  readonly clients: number;
  /** Default 1. */
  readonly processes?: number;
  /** Gateways that live now. */
  readonly urls: () => readonly string[];
  /** Readers that stop reading after so much, without closing. */
  readonly stallAfterBytes?: number;
}

/** How often readers hear which gateways live, as from a service's endpoints. */
const ENDPOINTS_MS = 100;

/** Starts readers that follow sessions from their first event. Close them in `finally`. */
export async function startCrowd({ processes = 1, ...options }: CrowdOptions): Promise<StreamCrowd> {
  const running: TestProcess[] = [];
  const close = async () => {
    clearInterval(endpoints);
    for (const each of running) each.stdin?.end();
    await Promise.all(running.map((each) => each.exited));
  };
  const tell = (each: TestProcess, command: CrowdCommand) => each.stdin?.write(`${JSON.stringify(command)}\n`);
  let known = '';
  const know = () => {
    const urls = options.urls();
    if (known === urls.join()) return;
    known = urls.join();
    for (const each of running) tell(each, { do: 'know', urls });
  };
  const endpoints = setInterval(know, ENDPOINTS_MS);
  try {
    for (let index = 0; index < processes; index += 1) {
      running.push(
        await startProcess({
          name: `stream-clients-${index}`,
          command: process.execPath,
          args: [path.join(__dirname, '..', 'programs', 'stream-clients-process.js')],
          stdin: 'pipe',
          ready: /"ready":true/,
        }),
      );
    }
    known = '';
    know();
    for (const [index, each] of running.entries()) {
      const clients = Math.floor(options.clients / processes) + (index < options.clients % processes ? 1 : 0);
      const { key, sessions, stallAfterBytes } = options;
      tell(each, {
        do: 'follow',
        key,
        sessions,
        clients,
        ...(stallAfterBytes === undefined ? {} : { stallAfterBytes }),
      });
    }
  } catch (error) {
    await close();
    throw error;
  }

  let asked = 0;
  const ask = async (lastSeqs: ReadonlyMap<string, number>) => {
    asked += 1;
    const number = asked;
    const answers = await Promise.all(
      running.map((each) => {
        tell(each, { do: 'tell', ask: number, lastSeqs: Object.fromEntries(lastSeqs) });
        return eventuallyDefined(
          () => {
            if (each.hasExited()) throw new Error(`${each.name} has ended:\n${each.stderr()}`);
            const line = each
              .stdout()
              .split('\n')
              .find((text) => text.startsWith(`{"ask":${number},`));
            return line === undefined ? undefined : (JSON.parse(line) as { behind: number; report: CrowdReport });
          },
          { timeoutMs: 60_000, what: `${each.name} to tell what it has seen` },
        );
      }),
    );
    return {
      behind: answers.reduce((sum, { behind }) => sum + behind, 0),
      report: answers.map(({ report }) => report).reduce(joined),
    };
  };

  return {
    drop: (clients) => {
      for (const each of running) tell(each, { do: 'drop', clients: Math.ceil(clients / processes) });
    },
    report: async () => (await ask(new Map())).report,
    until: (lastSeqs, timeoutMs) =>
      eventually(
        async () => {
          const { behind, report } = await ask(lastSeqs);
          if (behind > 0) throw new Error(`${behind} clients are behind; answers ${JSON.stringify(report.answers)}`);
          return report;
        },
        { timeoutMs, intervalMs: 500, what: 'every client to see the end of its session' },
      ),
    close,
  };
}

function joined(one: CrowdReport, other: CrowdReport): CrowdReport {
  const answers = { ...one.answers };
  for (const [status, count] of Object.entries(other.answers)) answers[status] = (answers[status] ?? 0) + count;
  return {
    gaps: [...one.gaps, ...other.gaps],
    dups: [...one.dups, ...other.dups],
    connections: one.connections + other.connections,
    drops: one.drops + other.drops,
    frames: one.frames + other.frames,
    catchUpMs: [...one.catchUpMs, ...other.catchUpMs],
    answers,
  };
}
