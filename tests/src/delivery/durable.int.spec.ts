import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  repositoryRoot,
  requireRedis,
  type TemporaryFolder,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { describeOnEachProfile } from '../profiles.js';
import { fakeScript, type RunView, START_MS, type System, startSystem } from '../system.js';

const EVENTS = ['run.created', 'run.started', 'turn.completed', 'run.completed', 'run.cancelled', 'run.failed'];

interface Entry {
  readonly eventId: string;
  readonly sessionId: string;
  readonly seq: number;
  readonly event: string;
  readonly pid: number;
}

interface PluginView {
  readonly name: string;
  readonly delivery?: { waitingSessions: number; lagMs: number; error?: string };
}

const source = () => readFileSync(path.join(repositoryRoot(), 'tests/src/delivery/journal-plugin.ts'), 'utf8');

function entriesOf(file: string): Entry[] {
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/** The numbers of a session that have to be told. */
async function expectedOf(system: System, sessionId: string): Promise<number[]> {
  const { rows } = await system.db.query(
    'SELECT seq FROM events WHERE session_id = $1 AND type = ANY($2::text[]) ORDER BY seq',
    [sessionId, EVENTS],
  );
  return rows.map(({ seq }) => Number(seq));
}

/** Told again is allowed; told for the first time only behind everything before. */
function firstTold(entries: readonly Entry[], sessionId: string): number[] {
  const seen = new Set<number>();
  for (const entry of entries) if (entry.sessionId === sessionId) seen.add(entry.seq);
  return [...seen];
}

describeOnEachProfile('events with durable delivery', (profile) => {
  let system: System;
  let folder: TemporaryFolder;
  const file = (plugin: string) => path.join(folder.path, plugin);

  beforeAll(async () => {
    if (profile === 'redis') await requireRedis();
    folder = await temporaryFolder('codedock-journal-');
    system = await startSystem({
      profile,
      pluginHosts: 2,
      runners: 2,
      plugins: async (root) => {
        await writePlugin(root, 'journal', {
          source: source(),
          pluginJson: { delivery: 'durable', config: { file: file('journal'), events: EVENTS } },
        });
      },
    });
  }, START_MS);
  afterAll(async () => {
    await system?.stop();
    await folder?.remove();
    await expectNoLeftovers();
  });

  it('are told at least once and in order while plugins, plugin-hosts and runners are killed', async () => {
    const runs: RunView[] = [];
    const begin = async (count: number) => {
      for (let n = 0; n < count; n += 1) {
        const content = fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'done' });
        // While no host is ready a gate cannot be asked; here no plugin has one.
        runs.push(await system.startRun(await system.createSession(), { content }));
      }
    };
    await begin(4);
    await eventually(() => entriesOf(file('journal')).length > 0, { what: 'the first event to be told' });
    for (const pid of new Set(entriesOf(file('journal')).map((entry) => entry.pid))) process.kill(pid, 'SIGKILL');
    await begin(4);
    await system.runners[0]?.kill();
    await begin(2);
    await system.pluginHosts[0]?.kill();
    await begin(2);
    await system.startPluginHost();
    await system.pluginHosts[1]?.kill();
    await system.startPluginHost();
    const cancelled = await system.startRun(await system.createSession(), { content: fakeScript({ hang: true }) });
    await system.api('POST', `/v1/runs/${cancelled.id}/cancel`);
    runs.push(cancelled);
    for (const run of runs) await system.waitForEnd(run.id, 90_000);

    await eventually(
      async () => {
        const entries = entriesOf(file('journal'));
        for (const { sessionId } of runs)
          expect({ sessionId, told: firstTold(entries, sessionId) }).toEqual({
            sessionId,
            told: await expectedOf(system, sessionId),
          });
      },
      { timeoutMs: 60_000, what: 'every event to be told, in order' },
    );
    const { rows } = await system.db.query('SELECT event_id, session_id, seq, type FROM events');
    const stored = new Map(rows.map((row) => [row.event_id, `${row.session_id} ${row.seq} ${row.type}`]));
    for (const { eventId, sessionId, seq, event } of entriesOf(file('journal')))
      expect(stored.get(eventId)).toBe(`${sessionId} ${seq} ${event}`);
    await eventually(
      async () => {
        const { body } = await system.api<{ items: PluginView[] }>('GET', '/v1/plugins');
        expect(body.items.find(({ name }) => name === 'journal')?.delivery).toMatchObject({
          waitingSessions: 0,
          lagMs: 0,
        });
      },
      { timeoutMs: 30_000, what: 'nothing to be behind' },
    );
  }, 300_000);
});
