import { randomUUID } from 'node:crypto';
import { AppError } from '@codedock/domain';
import { type GateHook, type Hooks, type InputDecision, named } from '@codedock/hooks';
import type { Store } from '@codedock/store';
import {
  createTestStore,
  recordedPorts,
  TEST_CONFIG,
  type TestTenant,
  testRecord,
  testTenant,
} from '@codedock/testkit';
import { type StartRun, startRun } from './start-run.js';

describe('starting a run', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let sessionId: string;

  beforeAll(async () => {
    ({ store, close } = await createTestStore());
    tenant = await testTenant(store);
  });
  afterAll(() => close());
  beforeEach(async () => {
    sessionId = await tenant.session();
  });

  const signal = new AbortController().signal;
  const answering = (
    decision: InputDecision | { kind: 'could_not_ask'; code: 'gate_timeout'; reason: string },
  ): Hooks => ({
    beforeInput: () => decision,
  });
  const start = (hooks: Hooks, overrides: Partial<StartRun> = {}) => {
    const ports = recordedPorts(store, hooks);
    const input: StartRun = {
      tenantId: tenant.tenantId,
      sessionId,
      content: 'my key is AKIA',
      actor: { id: tenant.keyId, name: 'ci' },
      requestId: 'request-7',
      trace: () => ({ traceparent: '00-1-2-01' }),
      configure: ({ content, mode }) => {
        if (content === '') throw new AppError('invalid_request', 'content is empty');
        return { ...TEST_CONFIG, ...(mode === undefined ? {} : { mode }) };
      },
      ...overrides,
    };
    return { ports, started: startRun(ports, input, signal) };
  };
  const runs = () => store.runs.list({ tenantId: tenant.tenantId, sessionId, limit: 10 });
  const audit = () => store.audit.bySession({ tenantId: tenant.tenantId, sessionId, limit: 10 });
  async function claimed(key: string) {
    const where = { tenantId: tenant.tenantId, route: 'POST /runs', key };
    const claim = (ownerToken: string) =>
      store.idempotency.claim({ ...where, bodyDigest: 'b', ownerToken, ttlMs: 10_000 });
    await claim('me');
    return { idempotency: { route: where.route, key, ownerToken: 'me' }, again: () => claim('other') };
  }

  it('without a hook accepts, publishes what is committed, then rings', async () => {
    const { ports, started } = start({});
    const result = await started;
    if (result.kind !== 'started') throw new Error('handled');
    expect(result.run).toMatchObject({ status: 'queued', agent: 'test', firstSeq: 1 });
    expect(ports.pushes).toMatchObject([{ sessionId, lastSeq: 1, events: [{ type: 'run.created', seq: 1 }] }]);
    expect(ports.rings).toEqual([
      { runId: result.run.id, doorbell: 1, priority: 1, trace: { traceparent: '00-1-2-01' } },
    ]);
    expect((await store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 5 }))[0]?.content).toEqual({
      text: 'my key is AKIA',
    });
  });

  it('answers success though nobody could be rung: the row is the truth', async () => {
    const ports = recordedPorts(store);
    ports.breakDoorbell();
    const result = await startRun(
      ports,
      {
        tenantId: tenant.tenantId,
        sessionId,
        content: 'x',
        actor: { id: 'k', name: 'ci' },
        requestId: 'r',
        trace: () => ({}),
        configure: () => TEST_CONFIG,
      },
      signal,
    );
    expect(result.kind).toBe('started');
    expect(ports.incidents).toMatchObject([{ kind: 'ring_failed' }]);
  });

  it('stores the text the hook made of it, its audit and its scratchpad, and nothing of the original', async () => {
    const hook: GateHook<'beforeInput'> = (event, call) => {
      expect(event).toEqual({ content: 'my key is AKIA' });
      expect(Object.isFrozen(call.scratchpad)).toBe(true);
      expect(call.principal).toMatchObject({ key: 'ci', agent: 'test', tenant: tenant.tenantId });
      call.record(testRecord({ hook: 'redact', outcome: 'changed' }));
      call.merge({ set: { redactions: 1 }, deleted: [] });
      call.merge({ set: { huge: 'x'.repeat(9_000) }, deleted: [] });
      return { kind: 'transform', content: 'my key is [redacted]', mode: 'careful' };
    };
    const { started } = start({ beforeInput: hook });
    const result = await started;
    if (result.kind !== 'started') throw new Error('handled');
    expect(result.run.mode).toBe('careful');
    const events = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 5 });
    expect(JSON.stringify(events)).not.toContain('AKIA');
    expect(JSON.stringify(events)).toContain('[redacted]');
    expect(
      (await audit()).map(({ hook: by, outcome, runId, requestId }) => ({ by, outcome, runId, requestId })),
    ).toEqual([
      { by: 'redact', outcome: 'changed', runId: result.run.id, requestId: 'request-7' },
      { by: 'host', outcome: 'oversize', runId: result.run.id, requestId: 'request-7' },
    ]);
    const snapshot = await tenant.lease(result.run.id);
    expect(snapshot.scratchpad).toEqual({ redactions: 1 });
    expect(snapshot.principal.mode).toBe('careful');
  });

  it('handled creates and cancels nothing, also on a busy session with onBusy interrupt; its answer is replayed', async () => {
    const busy = await tenant.accept(sessionId);
    const { idempotency, again } = await claimed(randomUUID());
    const { ports, started } = start(answering({ kind: 'handled' }), { onBusy: 'interrupt', idempotency });
    expect(await started).toEqual({ kind: 'handled' });
    expect(await runs()).toEqual([busy.run]);
    expect([ports.pushes, ports.rings, ports.cancels]).toEqual([[], [], []]);
    expect(await again()).toEqual({
      kind: 'replay',
      response: { status: 200, body: { handled: true, runId: null, run: null } },
    });
  });

  it('block of a hook in this process leaves a row of its own behind those of plugins', async () => {
    const { started } = start({
      beforeInput: (_, call) => {
        const times = { startedMs: 0, durationMs: 1, queueMs: 0 };
        call.record({ gate: 'beforeInput', hook: 'redact', outcome: 'continued', ...times });
        return { kind: 'block', reason: 'closed today', by: 'calendar' };
      },
    });
    await expect(started).rejects.toMatchObject({ code: 'hook_blocked' });
    expect((await audit()).map(({ hook, outcome }) => [hook, outcome]).sort()).toEqual([
      ['calendar', 'blocked'],
      ['redact', 'continued'],
    ]);
  });

  it('block refuses with an audit row and nothing else', async () => {
    const { idempotency, again } = await claimed(randomUUID());
    const { started } = start(answering({ kind: 'block', reason: 'no secrets', by: 'dlp' }), { idempotency });
    await expect(started).rejects.toMatchObject({ code: 'hook_blocked', message: 'no secrets', extra: { by: 'dlp' } });
    expect(await runs()).toEqual([]);
    expect(await audit()).toMatchObject([
      { hook: 'dlp', outcome: 'blocked', reason: 'no secrets', requestId: 'request-7' },
    ]);
    expect((await store.sessions.get(tenant.tenantId, sessionId)).lastSeq).toBe(0);
    // Nothing was stored under the key: who claimed it releases it.
    expect((await again()).kind).toBe('in_progress');
  });

  it('could not ask is told apart from a refusal', async () => {
    const { started } = start(answering({ kind: 'could_not_ask', code: 'gate_timeout', reason: 'host: no answer' }));
    await expect(started).rejects.toMatchObject({ code: 'gate_timeout', status: 503 });
    expect(await runs()).toEqual([]);
    expect(await audit()).toMatchObject([{ hook: 'host', outcome: 'timeout' }]);
  });

  it('a changed value that the request itself could not have is an invalid answer', async () => {
    const hook: GateHook<'beforeInput'> = (_event, call) => {
      call.record(testRecord({ hook: 'eraser', outcome: 'changed' }));
      return { kind: 'transform', content: '' };
    };
    const { started } = start({ beforeInput: hook });
    await expect(started).rejects.toMatchObject({ code: 'gate_unavailable', extra: { by: 'eraser' } });
    expect(await runs()).toEqual([]);
    expect((await audit()).map((record) => record.outcome)).toEqual(['changed', 'invalid']);
  });

  it('what an in-process hook throws fails the request with its name', async () => {
    const hooks = named('metrics', {
      beforeInput: () => {
        throw new Error('bug');
      },
    });
    await expect(start(hooks).started).rejects.toMatchObject({ code: 'hook_error', extra: { hook: 'metrics' } });
    expect(await runs()).toEqual([]);
  });

  it('asks the gate before it looks whether the session is busy', async () => {
    await tenant.accept(sessionId);
    let asked = 0;
    const { started } = start({
      beforeInput: () => {
        asked += 1;
        return { kind: 'continue' };
      },
    });
    await expect(started).rejects.toMatchObject({ code: 'session_busy' });
    expect(asked).toBe(1);
  });

  it('asks no gate for a session that is not there or archived, or for invalid input', async () => {
    const hooks: Hooks = {
      beforeInput: () => {
        throw new Error('asked');
      },
    };
    await expect(start(hooks, { sessionId: randomUUID() }).started).rejects.toMatchObject({ code: 'not_found' });
    await expect(start(hooks, { content: '' }).started).rejects.toMatchObject({ code: 'invalid_request' });
    await store.sessions.archive(tenant.tenantId, sessionId);
    await expect(start(hooks).started).rejects.toMatchObject({ code: 'session_archived' });
  });

  it('interrupt ends the active run and lets the new one in', async () => {
    const active = await tenant.accept(sessionId);
    const { ports, started } = start({}, { onBusy: 'interrupt' });
    const result = await started;
    if (result.kind !== 'started') throw new Error('handled');
    expect(result.run.status).toBe('pending');
    await until(async () => (await store.runs.get(tenant.tenantId, result.run.id)).status === 'queued');
    expect(await store.runs.get(tenant.tenantId, active.run.id)).toMatchObject({
      status: 'cancelled',
      stopReason: 'interrupted',
    });
    await until(async () => ports.rings.some((ring) => ring.runId === result.run.id));
    expect(ports.incidents).toEqual([]);
  });

  async function until(condition: () => Promise<boolean>): Promise<void> {
    while (!(await condition())) await recordedPorts(store).clock.sleep(10, signal);
  }
});
