import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type PluginJson, repositoryRoot, writePlugin } from '@codedock/testkit';
import type { System } from '../system.js';
import type { Asked, Told } from './policy-program.js';

export type { Asked, Told } from './policy-program.js';

/** What each plugin does at each port; at the tool ports by tool. */
export type Policies = Readonly<Record<string, Readonly<Record<string, Told | Readonly<Record<string, Told>>>>>>;

/** Metadata of a session or run that tells the policies of `writePolicy` what to do. */
export const tell = (policies: Policies) => ({ policies }) as unknown as Record<string, unknown>;

const PROGRAM = path.join(repositoryRoot(), 'tests/src/gates/policy-program.ts');
const LOG = 'asked.jsonl';

/** Puts a plugin into a root that does what the metadata tells it; its ports default to all gates, its events to none. */
export async function writePolicy(
  root: string,
  name: string,
  {
    ports,
    events,
    ...pluginJson
  }: { readonly ports?: readonly string[]; readonly events?: readonly string[] } & PluginJson = {},
): Promise<void> {
  await writePlugin(root, name, {
    source: readFileSync(PROGRAM, 'utf8'),
    pluginJson: {
      ...pluginJson,
      config: {
        log: path.join(path.dirname(root), LOG),
        ...(ports === undefined ? {} : { ports }),
        ...(events === undefined ? {} : { events }),
      },
    },
  });
}

/** What the policies of a system were asked and told so far, in order; of one run or session, if given. */
export function asked(
  system: Pick<System, 'pluginRoot'>,
  filter: Partial<Pick<Asked, 'runId' | 'sessionId' | 'port' | 'plugin'>> = {},
): Asked[] {
  return linesOf<Asked>(path.join(path.dirname(system.pluginRoot), LOG)).filter((line) =>
    Object.entries(filter).every(([key, value]) => line[key as keyof Asked] === value),
  );
}

/** The lines of a file of JSON lines; none where there is no file. */
export function linesOf<T>(file: string): T[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

/** The records of hooks that the API shows for a run or a session. */
export async function hookRecords(system: System, of: { readonly runId: string } | { readonly sessionId: string }) {
  const at = 'runId' in of ? `runs/${of.runId}` : `sessions/${of.sessionId}`;
  const { body } = await system.api<{ items: HookRecordView[] }>('GET', `/v1/${at}/hooks?limit=200`);
  return body.items;
}

/** A hook record as the API shows it. */
export interface HookRecordView {
  readonly gate: string;
  readonly port?: string;
  readonly hook: string;
  readonly outcome: string;
  readonly reason?: string;
  readonly runId?: string;
  readonly callId?: string;
  readonly requestId?: string;
}

/** A message as the API shows it. */
export interface MessageView {
  readonly role: string;
  readonly content: { readonly text?: string; readonly callId?: string; readonly output?: unknown };
  readonly runId?: string;
}

/** The session's messages as the API shows them. */
export async function messages(system: System, sessionId: string): Promise<MessageView[]> {
  const { body } = await system.api<{ items: MessageView[] }>('GET', `/v1/sessions/${sessionId}/messages?limit=1000`);
  return body.items;
}

/** Who settled each call with which result, by the ledger, in its order. */
export async function resultsOf(
  system: System,
  { id, sessionId }: { readonly id: string; readonly sessionId: string },
) {
  const events = (await system.events(sessionId)).filter((event) => event.runId === id);
  return events
    .filter(({ type }) => type === 'tool.execution_result')
    .map(({ payload }) => payload as unknown as ResultView);
}

/** Payload of `tool.execution_result`. */
export interface ResultView {
  readonly callId: string;
  readonly tool: string;
  readonly state: string;
  readonly source: string;
  readonly by?: string;
}

/** A run's calls and executions as the API shows them. */
export async function traceOf(system: System, runId: string): Promise<TraceView> {
  const { body } = await system.api<TraceView>('GET', `/v1/runs/${runId}/trace`);
  return body;
}

/** What `traceOf` answers. */
export interface TraceView {
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly state: string;
    readonly result?: { readonly success: boolean; readonly output: unknown; readonly error?: string };
  }[];
  readonly executions: readonly { readonly callId: string; readonly n: number; readonly state: string }[];
  readonly turns: readonly { readonly tools?: readonly string[]; readonly iteration: number }[];
}

/** Number of rows of a table with a column's value. */
export async function countRows(
  system: System,
  table: 'approvals' | 'runs' | 'messages' | 'events',
  where: { readonly column: 'run_id' | 'session_id'; readonly value: string },
): Promise<number> {
  const { rows } = await system.db.query<{ count: string }>(
    `SELECT count(*) FROM ${table} WHERE ${where.column} = $1`,
    [where.value],
  );
  return Number(rows[0]?.count);
}
