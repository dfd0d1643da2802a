import { randomUUID } from 'node:crypto';
import type { Store } from '@codedock/store';
import {
  createTestStore,
  type RecordedPorts,
  recordedPorts,
  TEST_SEAL,
  type TestTenant,
  testTenant,
} from '@codedock/testkit';
import { Client } from 'pg';
import { decideApproval } from './decide-approval.js';
import { reconcileOnce } from './reconcile.js';
import { resolveToolCall } from './resolve-tool-call.js';

describe('decisions of people', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let ports: RecordedPorts;

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    tenant = await testTenant(store);
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });
  beforeEach(() => {
    ports = recordedPorts(store);
  });

  async function leased(calls: number) {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id);
    const where = { runId: run.id, sessionId };
    return { ...where, ...(await tenant.turnWithCalls(where, 1, calls)) };
  }
  async function parked(calls = 1) {
    const turn = await leased(calls);
    const approvalId = randomUUID();
    await tenant.park(turn, 1, turn, approvalId);
    return { ...turn, approvalId };
  }
  const pushed = () => ports.pushes.flatMap(({ events = [] }) => events.map(({ type }) => type));
  const ann = { id: 'ann', name: 'ann' };

  it('are one, however often they are clicked', async () => {
    const { approvalId, callIds, runId } = await parked(2);
    const decisions = callIds.map((callId) => ({ callId, decision: 'approve' as const }));
    const clicks = Array.from({ length: 50 }, () =>
      decideApproval(ports, { tenantId: tenant.tenantId, approvalId, actor: ann, decisions }),
    );
    const answers = await Promise.all(clicks);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(pushed()).toEqual(['tool.approval_decided', 'run.state_changed']);
    expect(ports.rings).toMatchObject([{ runId }]);
  });

  it('are reminded of once, by the reconciler, unless nobody wants that', async () => {
    const { approvalId } = await parked();
    const old = "UPDATE approvals SET created_at = created_at - interval '3 hours' WHERE id = $1";
    await observer.query(old, [approvalId]);
    await reconcileOnce(ports, { reminderShare: 0 });
    expect(pushed()).not.toContain('tool.approval_reminder');
    await reconcileOnce(ports);
    await reconcileOnce(ports);
    expect(pushed().filter((type) => type === 'tool.approval_reminder')).toHaveLength(1);
    expect(ports.incidents).toEqual([]);
  });

  describe('on a call of unknown outcome', () => {
    async function unknown() {
      const turn = await leased(1);
      const [callId = ''] = turn.callIds;
      await store.ledger.append({
        tenantId: tenant.tenantId,
        sessionId: turn.sessionId,
        run: { runId: turn.runId, token: 1 },
        events: [],
        changes: {
          calls: [{ id: callId, state: 'executing', expect: TEST_SEAL }],
          executions: [{ callId, n: 1, state: 'executing' }],
        },
      });
      await tenant.end(turn, 1);
      return { ...turn, callId };
    }
    const told = async (sessionId: string) =>
      (await store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 10 })).flatMap(({ content }) =>
        'callId' in content ? [content.output] : [],
      );

    it.each([
      ['happened', { output: { id: 7 } }, 'succeeded', { id: 7 }],
      ['happened', {}, 'succeeded', 'A person has confirmed that this call took effect.'],
      [
        'did_not',
        { note: 'The bank has no such booking.' },
        'failed',
        'A person has confirmed that this call did not take effect. The bank has no such booking.',
      ],
    ] as const)('%s %j: it is %s, and the model is told', async (outcome, more, state, text) => {
      const { callId, sessionId } = await unknown();
      const word = { tenantId: tenant.tenantId, callId, outcome, actor: ann, ...more };
      const resolved = await resolveToolCall(ports, word);
      expect(resolved).toMatchObject({ id: callId, sessionId, state, settledBy: 'ann' });
      expect(await told(sessionId)).toEqual([text]);
      expect(pushed()).toEqual(['tool.execution_result']);
      expect(await resolveToolCall(ports, word)).toEqual(resolved);
      expect(pushed()).toHaveLength(1);
    });

    it('retry is refused after the end, and says what to do', async () => {
      const { callId } = await unknown();
      const word = { tenantId: tenant.tenantId, callId, outcome: 'retry', actor: ann } as const;
      await expect(resolveToolCall(ports, word)).rejects.toMatchObject({
        code: 'run_ended',
        message: expect.stringContaining('did_not'),
      });
    });
  });
});
