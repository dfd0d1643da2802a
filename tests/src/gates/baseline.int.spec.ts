import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expectNoLeftovers, repositoryRoot, writePlugin } from '@codedock/testkit';
import { fakeScript, type System, type SystemOptions, startSystem } from '../system.js';
import baseline from './baseline.json';
import { messages } from './policies.js';

const EXAMPLE = path.join(repositoryRoot(), 'plugin/example/src/plugin.ts');

/** One call a turn, so that nothing happens at the same time. */
const INPUTS = [
  { content: 'hello' },
  {
    content: fakeScript(
      { text: 'I call.', toolCalls: [{ name: 'ping', arguments: {} }] },
      { toolCalls: [{ name: 'memory_write', arguments: { name: 'colour', text: 'green' } }] },
      { toolCalls: [{ name: 'memory_read', arguments: { name: 'colour' } }] },
      { toolCalls: [{ name: 'memory_read', arguments: { unknown: true } }] },
      { toolCalls: [{ name: 'unheard_of' }] },
      { text: 'It is green.' },
    ),
  },
  { content: fakeScript({ chunks: ['half an '], fail: 'provider_rejected' }) },
];

/** What the inputs leave in one session: ledger, messages, and how the runs ended. */
async function traceOfInputs(system: System) {
  const sessionId = await system.createSession({ user: 'ann' });
  const runs = [];
  for (const input of INPUTS) {
    const { id, status, stopReason, attempt } = await system.waitForEnd((await system.startRun(sessionId, input)).id);
    runs.push({ id, status, stopReason, attempt });
  }
  const events = (await system.events(sessionId)).map(({ type, runId, turnId, payload }) => ({
    type,
    runId,
    turnId,
    payload,
  }));
  return normalised({ events: joinedDeltas(events), messages: await messages(system, sessionId), runs });
}

interface Stored {
  readonly type: string;
  readonly turnId: string | undefined;
  readonly payload: Record<string, unknown>;
}

/** How a text is cut into deltas depends on the clock. */
function joinedDeltas<E extends Stored>(events: readonly E[]): E[] {
  const joined: E[] = [];
  for (const event of events) {
    const last = joined.at(-1);
    if (event.type !== 'assistant.delta' || last?.type !== event.type || last.turnId !== event.turnId) {
      joined.push(event);
      continue;
    }
    const payload = { ...last.payload, text: `${last.payload['text']}${event.payload['text']}` };
    joined.splice(-1, 1, { ...last, payload });
  }
  return joined;
}

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;
/** Numbers that depend on how deltas were cut. */
const POSITIONS = new Set(['eventSeq', 'firstSeq', 'lastSeq']);

/** Ids by the order in which they appear, times by a word. */
function normalised(value: unknown): unknown {
  const names = new Map<string, string>();
  const text = JSON.stringify(value, (key, member) => (POSITIONS.has(key) ? undefined : member))
    .replace(ID, (id) => {
      const name = names.get(id) ?? `id-${names.size + 1}`;
      names.set(id, name);
      return name;
    })
    .replace(TIME, 'time');
  return JSON.parse(text);
}

describe('what is stored is, but for ids and times, what always was', () => {
  it.each<[string, Pick<SystemOptions, 'plugins'>]>([
    ['without a plugin folder', {}],
    [
      'with the template of a plugin installed',
      {
        plugins: async (root) => {
          const serving = "import { serve } from '@codedock/plugin-sdk';\nserve(plugin);\n";
          await writePlugin(root, 'example', { source: `${readFileSync(EXAMPLE, 'utf8')}\n${serving}` });
        },
      },
    ],
  ])(
    '%s',
    async (_, options) => {
      const system = await startSystem(options);
      try {
        if (options.plugins !== undefined) {
          const { body } = await system.api<{ items: object[] }>('GET', '/v1/plugins');
          expect(body.items).toMatchObject([{ name: 'example', state: 'ready' }]);
        }
        expect(await traceOfInputs(system)).toEqual(baseline);
        expect((await system.db.query('SELECT 1 FROM hook_audit')).rowCount).toBe(0);
      } finally {
        await system.stop();
      }
    },
    150_000,
  );

  afterAll(() => expectNoLeftovers());
});
