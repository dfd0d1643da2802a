import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  eventually,
  expectNoLeftovers,
  repositoryRoot,
  type StreamFrame,
  type TemporaryFolder,
  temporaryFolder,
} from '@codedock/testkit';
import { type RunView, START_MS, type System, startSystem } from '../system.js';

/** Pieces so far from each other that they are shown one by one where nobody holds them. */
const reply = (...chunks: readonly string[]) => ({ chunks, chunkDelayMs: 100 });
const agent = (name: string, script: readonly unknown[], more: Record<string, unknown> = {}) => ({
  name,
  model: { provider: 'fake', name: 'fake', options: { script } },
  ...more,
});
const SECRET = [reply('the word ', 'is sec', 'ret, ', 'keep it'), reply('done')];
const FORBIDDEN = [reply('a forbid', 'den ', 'thing'), reply('done')];

let folder: TemporaryFolder;
let system: System;

beforeAll(async () => {
  folder = await temporaryFolder('codedock-judged-');
  system = await startSystem({
    programs: { runner: path.join(repositoryRoot(), 'tests/dist/gates/judging-runner-process.js') },
    runnerEnv: { JUDGED_RUNS: folder.path },
    agents: [
      agent('held', SECRET, { holdDeltas: true }),
      agent('stopped', FORBIDDEN, { holdDeltas: true }),
      agent('open', SECRET),
    ],
  });
}, START_MS);

afterAll(async () => {
  await system?.stop();
  await folder?.remove();
  await expectNoLeftovers();
});

const startedBy = async (name: string): Promise<RunView> =>
  system.startRun(await system.createSession(), { content: 'tell me', agent: name });

/** Resolves when the whole reply is there and its judge is asked. */
const untilJudged = ({ id }: RunView) =>
  eventually(() => system.runners.some((runner) => runner.stdout().includes(`judging ${id}\n`)), {
    timeoutMs: 60_000,
    what: `the reply of run ${id} to be judged`,
  });

const letGo = ({ id }: RunView) => writeFile(path.join(folder.path, id), '');

const ofReply = (type: string) => type.startsWith('assistant.');

/** Follows a run from after `lastEventId`, or from its begin, to the end of the stream. */
async function followed({ id }: RunView, lastEventId?: string): Promise<readonly StreamFrame[]> {
  const stream = await system.stream(`/v1/runs/${id}/events`, lastEventId === undefined ? {} : { lastEventId });
  expect(stream.status).toBe(200);
  expect(await stream.over).toBe('ended');
  return stream.frames;
}

const idsOf = (frames: readonly StreamFrame[]) => frames.map(({ id }) => Number(id));
const repliesIn = (frames: readonly StreamFrame[]) => frames.filter(({ event }) => ofReply(event));
const shownIn = (frames: readonly StreamFrame[]) =>
  frames
    .filter(({ event }) => event === 'assistant.delta')
    .map(({ data }) => (JSON.parse(data) as { payload: { text: string } }).payload.text)
    .join('');

describe('a reply whose deltas are held', () => {
  it.each([
    ['held', 'the word is [withheld], keep it', 'completed'],
    ['stopped', 'a [withheld] thing', 'stopped_by_hook'],
  ])(
    '%s: is shown as its judge left it, and before that not at all',
    async (name, judged, stopReason) => {
      const run = await startedBy(name);
      const cut = await system.stream(`/v1/runs/${run.id}/events`);
      const stays = followed(run);
      await untilJudged(run);
      await cut.waitFor(({ event }) => event === 'turn.started', 60_000);
      expect((await system.events(run.sessionId)).filter(({ type }) => ofReply(type))).toEqual([]);
      cut.close();
      await cut.over;
      await letGo(run);
      expect(await system.waitForEnd(run.id, 60_000)).toMatchObject({ status: 'completed', stopReason });

      const stored = await system.events(run.sessionId);
      const all = stored.map((_, index) => index + 1);
      const whole = await stays;
      const back = [...cut.frames, ...(await followed(run, cut.frames.at(-1)?.id))];
      for (const frames of [whole, back, await followed(run)]) {
        expect(idsOf(frames)).toEqual(all);
        expect(shownIn(frames)).toBe(judged);
        expect(
          repliesIn(frames)
            .map(({ data }) => data)
            .join(),
        ).not.toMatch(/sec|ret,|forbid|den /);
      }
      expect(repliesIn(cut.frames)).toEqual([]);
    },
    150_000,
  );

  it('is one of an agent that says so: another agent shows its pieces before they are judged', async () => {
    const run = await startedBy('open');
    await untilJudged(run);
    await eventually(
      async () => {
        const shown = (await system.events(run.sessionId)).filter(({ type }) => type === 'assistant.delta');
        expect(shown.map(({ payload }) => payload['text']).join('')).toBe('the word is secret, keep it');
      },
      { timeoutMs: 60_000, what: 'the reply to be shown' },
    );
    await letGo(run);
    await system.waitForEnd(run.id, 60_000);
    const completed = (await followed(run)).find(({ event }) => event === 'assistant.completed');
    expect(completed?.data).toContain('the word is [withheld], keep it');
  }, 150_000);
});
