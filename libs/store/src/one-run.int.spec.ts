import { randomUUID } from 'node:crypto';
import { type LedgerEvent, type Message, runEnd, toolMessageOf } from '@codedock/domain';
import { createTestStore, type TestTenant, testEvent, testRecord, testTenant } from '@codedock/testkit';
import type { Store } from './contract.js';

describe('a run from its acceptance to its end', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ store, close } = await createTestStore());
    tenant = await testTenant(store);
  });
  afterAll(() => close());

  it('stores what it publishes, word for word', async () => {
    const sessionId = await tenant.session();
    const published: LedgerEvent[] = [];
    const { run, events, ring } = await tenant.accept(sessionId, {
      records: [{ record: testRecord(), site: { tenantId: tenant.tenantId, sessionId, requestId: 'r-1' } }],
      scratchpad: { seen: 1 },
      trace: { traceparent: '00-a-b-01' },
    });
    published.push(...events);
    expect(run).toMatchObject({ status: 'queued', attempt: 0, firstSeq: 1, lastSeq: 1, cancelRequested: false });
    expect(ring).toEqual({ runId: run.id, doorbell: 1, priority: 1, trace: { traceparent: '00-a-b-01' } });

    const taken = await store.runs.takeLease(run.id, 15_000);
    if (taken.kind !== 'leased') throw new Error(taken.kind);
    published.push(...taken.events);
    const { snapshot } = taken;
    expect(snapshot).toMatchObject({ attempt: 1, turns: 0, scratchpad: { seen: 1 }, cancelRequested: false });
    expect(snapshot.messages.map((message) => message.content)).toEqual([{ text: 'hello' }]);
    expect(snapshot.openTurn).toBeUndefined();
    expect(taken.trace).toEqual({ traceparent: '00-a-b-01' });

    const fence = { runId: run.id, token: 1 };
    const turn = { id: randomUUID(), iteration: 1 };
    const base = { tenantId: tenant.tenantId, sessionId, run: fence };
    published.push(
      ...(
        await store.ledger.append({
          ...base,
          events: [testEvent('run.started', {}), testEvent('turn.started', { iteration: 1, tools: ['ping'] }, turn.id)],
          changes: {
            run: { start: { systemPrompt: 'final', hidden: [] }, turns: 1 },
            turns: [{ ...turn, status: 'open', tools: ['ping'] }],
          },
        })
      ).events,
    );
    const callId = randomUUID();
    const reply: Message = {
      id: randomUUID(),
      sessionId,
      runId: run.id,
      turnId: turn.id,
      role: 'assistant',
      content: { text: 'calling' },
      toolCalls: [{ id: callId, name: 'ping', arguments: { deep: null }, providerCallId: 'p1' }],
      eventSeq: 0,
      createdAt: new Date(0).toISOString(),
    };
    const completed = testEvent('assistant.completed', { message: reply, finishReason: 'tool_calls' }, turn.id);
    published.push(
      ...(
        await store.ledger.append({
          ...base,
          events: [completed],
          changes: {
            messages: [{ message: reply, eventId: completed.eventId }],
            turns: [{ ...turn, status: 'replied', usage: { inputTokens: 3, outputTokens: 4 } }],
            calls: [
              {
                id: callId,
                state: 'proposed',
                turnId: turn.id,
                index: 0,
                name: 'ping',
                arguments: { deep: null },
                providerCallId: 'p1',
                effect: 'effectful',
              },
            ],
            run: { usage: { inputTokens: 3, outputTokens: 4 }, toolCalls: 1, progress: true },
          },
        })
      ).events,
    );
    const gated = { digest: 'd', gateVersion: 'v', decision: 'proceed', reasons: [] } as const;
    published.push(
      ...(
        await store.ledger.append({
          ...base,
          events: [
            testEvent('tool.execution_started', { callId, tool: 'ping', n: 1, arguments: { deep: null } }, turn.id),
          ],
          changes: {
            calls: [{ id: callId, state: 'proposed', gated }],
          },
        })
      ).events,
    );
    await store.ledger.append({
      ...base,
      events: [],
      changes: {
        calls: [{ id: callId, state: 'executing', expect: { digest: 'd', gateVersion: 'v' } }],
        executions: [{ callId, n: 1, state: 'executing' }],
      },
    });
    const result = { success: true, output: null };
    const toolMessage = toolMessageOf({ id: callId, turnId: turn.id }, result, {
      sessionId,
      runId: run.id,
      createdAt: new Date(0).toISOString(),
    });
    const finished = testEvent(
      'tool.execution_result',
      { callId, tool: 'ping', state: 'succeeded', source: 'tool', result },
      turn.id,
    );
    published.push(
      ...(
        await store.ledger.append({
          ...base,
          events: [finished],
          changes: {
            messages: [{ message: toolMessage, eventId: finished.eventId }],
            calls: [{ id: callId, state: 'succeeded', result, source: 'tool' }],
            executions: [{ callId, n: 1, state: 'succeeded' }],
          },
        })
      ).events,
    );
    const left = await store.runs.leave({
      ...base,
      events: [testEvent('turn.completed', { iteration: 1 }, turn.id)],
      changes: { turns: [{ ...turn, status: 'completed' }] },
      to: { kind: 'end', end: runEnd('completed') },
    });
    published.push(...left.events);
    expect(left).toMatchObject({ applied: true, rings: [], end: { status: 'completed', stopReason: 'completed' } });

    const stored = await store.ledger.since({ tenantId: tenant.tenantId, sessionId, after: 0, limit: 100 });
    expect(stored).toEqual(JSON.parse(JSON.stringify(published)));
    expect(stored.map((event) => event.type)).toEqual([
      'run.created',
      'run.state_changed',
      'run.started',
      'turn.started',
      'assistant.completed',
      'tool.execution_started',
      'tool.execution_result',
      'turn.completed',
      'run.completed',
    ]);
    expect(stored.at(-1)?.payload).toEqual({
      stopReason: 'completed',
      turns: 1,
      usage: { inputTokens: 3, outputTokens: 4 },
    });

    const messages = await store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 10 });
    expect(messages.map((message) => [message.role, message.eventSeq])).toEqual([
      ['user', 1],
      ['assistant', 5],
      ['tool', 7],
    ]);
    expect(messages[1]?.toolCalls).toEqual(reply.toolCalls);
    const [call] = await store.toolCalls.list(tenant.tenantId, run.id);
    expect(call).toMatchObject({ state: 'succeeded', executions: 1, gated, result, providerCallId: 'p1' });

    const trace = await store.trace(tenant.tenantId, run.id);
    expect(trace.records).toMatchObject([{ hook: 'redact', runId: run.id, requestId: 'r-1' }]);
    expect(trace.executions).toMatchObject([{ callId, n: 1, state: 'succeeded' }]);
    expect(trace.run).toMatchObject({ status: 'completed', turns: 1, toolCalls: 1, lastSeq: 9 });
    expect(trace.run.endedAt).toBeDefined();
  });

  it('resumes an open turn with its reply, calls and checkpoint', async () => {
    const sessionId = await tenant.session();
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id, 1);
    const turn = { id: randomUUID(), iteration: 1 };
    const callId = randomUUID();
    const reply: Message = {
      id: randomUUID(),
      sessionId,
      runId: run.id,
      turnId: turn.id,
      role: 'assistant',
      content: { text: '' },
      toolCalls: [{ id: callId, name: 'ping', arguments: {} }],
      eventSeq: 0,
      createdAt: new Date(0).toISOString(),
    };
    const completed = testEvent('assistant.completed', { message: reply, finishReason: 'tool_calls' }, turn.id);
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId: run.id, token: 1 },
      events: [completed],
      changes: {
        run: { start: { systemPrompt: 's', hidden: [] }, metadata: { seen: true }, progress: true },
        turns: [{ ...turn, status: 'replied', tools: ['ping'] }],
        messages: [{ message: reply, eventId: completed.eventId }],
        calls: [
          { id: callId, state: 'proposed', turnId: turn.id, index: 0, name: 'ping', arguments: {}, effect: 'pure' },
        ],
      },
    });
    const again = await tenant.lease(run.id);
    expect(again.attempt).toBe(2);
    expect(again.start).toEqual({ systemPrompt: 's', hidden: [] });
    expect(again.metadata).toEqual({ seen: true });
    expect(again.openTurn).toMatchObject({ ...turn, tools: ['ping'], reply: { id: reply.id } });
    expect(again.openTurn?.calls).toMatchObject([{ id: callId, state: 'proposed', executions: 0 }]);
  });
});
