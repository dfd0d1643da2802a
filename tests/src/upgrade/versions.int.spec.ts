import path from 'node:path';
import { repositoryRoot } from '@codedock/testkit';
import { tell, writePolicy } from '../gates/policies.js';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';
import { buildPreviousVersion, type PreviousVersion, previousCommit } from './previous-version.js';

const BUILD_MS = 300_000;
type App = 'gateway' | 'runner' | 'plugin-host';

/**
 * An upgrade replaces the services one after the other, after the migrations: for a while the previous version works on the
 * new schema and beside new services.
 */
describe('the previous version on the new schema', () => {
  let previous: PreviousVersion | undefined;
  let system: System | undefined;

  beforeAll(async () => {
    const commit = await previousCommit();
    if (commit === undefined) {
      const missing = 'the history of this clone is not here (git fetch --unshallow)';
      if (process.env['REQUIRE_HISTORY'] === '1') throw new Error(missing);
      process.stderr.write(`skipped: versions side by side, ${missing}\n`);
      return;
    }
    previous = await buildPreviousVersion(commit);
  }, BUILD_MS);
  afterEach(async () => {
    await system?.stop();
    system = undefined;
  }, START_MS);
  afterAll(async () => {
    await previous?.remove();
  }, BUILD_MS);

  const old = (app: App) => path.join(previous?.root ?? '', 'apps', app, 'dist', 'main.js');

  it.each<{ name: string; apps: readonly App[] }>([
    { name: 'an old runner beside a new gateway', apps: ['runner'] },
    { name: 'an old gateway beside a new runner', apps: ['gateway'] },
    { name: 'an old plugin-host beside new callers', apps: ['plugin-host'] },
    { name: 'old callers beside a new plugin-host', apps: ['gateway', 'runner'] },
  ])(
    '$name: gates, approvals and streams as ever',
    async ({ apps }) => {
      if (previous === undefined) return;
      system = await startSystem({
        programs: Object.fromEntries(apps.map((app) => [app, old(app)])),
        plugins: (root) => writePolicy(root, 'policy'),
      });
      const blocked = await gated(system, ['deny', 'not here']);
      expect(blocked).toMatchObject({ status: 'completed', states: ['blocked'] });
      const approved = await gated(system, ['askApproval', 'sure?']);
      expect(approved).toMatchObject({ status: 'completed', states: ['succeeded'] });
      for (const { seqs } of [blocked, approved]) expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    },
    START_MS * 2,
  );

  it(
    'a run goes from an old runner to a new one and back, with its numbers in order',
    async () => {
      if (previous === undefined) return;
      system = await startSystem({ programs: { runner: old('runner') }, env: { RUNNER_DRAIN_TIMEOUT: '1s' } });
      const sessionId = await system.createSession();
      const { id } = await system.startRun(sessionId, { content: fakeScript({ text: 'slow', hang: true }) });
      const at = (attempt: number) =>
        system?.waitForRun(id, (run) => run.status === 'running' && run.attempt === attempt, 60_000);
      await at(1);
      const young = await system.startRunner({}, path.join(repositoryRoot(), 'apps/runner/dist/main.js'));
      await system.runners[0]?.stop(60_000);
      await at(2);
      await system.startRunner({}, old('runner'));
      await young.stop(60_000);
      await at(3);
      await system.api('POST', `/v1/runs/${id}/cancel`);
      expect((await system.waitForEnd(id)).status).toBe('cancelled');
      const seqs = (await system.events(sessionId)).map(({ seq }) => seq);
      expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    },
    START_MS * 2,
  );
});

interface Gated {
  readonly status: string;
  readonly states: readonly string[];
  readonly seqs: readonly number[];
}

/** A run with one tool call that the policy answers as told; an approval is given. */
async function gated(system: System, decide: readonly [string, string]): Promise<Gated> {
  const sessionId = await system.createSession();
  const run = await system.startRun(sessionId, {
    content: fakeScript({ toolCalls: [{ name: 'ping' }] }, { text: 'done' }),
    metadata: tell({ policy: { 'tools/pre-execute': { ping: { decide } } } } as never),
  });
  if (decide[0] === 'askApproval') {
    await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval', 60_000);
    const open = await system.api<{ items: { id: string; calls: { callId: string }[] }[] }>(
      'GET',
      `/v1/approvals?runId=${run.id}&status=open`,
    );
    const approval = open.body.items[0];
    const decisions = approval?.calls.map(({ callId }) => ({ callId, decision: 'approve' }));
    expect((await system.api('POST', `/v1/approvals/${approval?.id}/decisions`, { decisions })).status).toBe(200);
  }
  const { status } = await system.waitForEnd(run.id, 60_000);
  const { rows } = await system.db.query<{ state: string }>('SELECT state FROM tool_calls WHERE run_id = $1', [run.id]);
  const seqs = (await system.events(sessionId)).map(({ seq }) => seq);
  return { status, states: rows.map(({ state }) => state), seqs };
}
