import { randomUUID } from 'node:crypto';
import { createTestStore, type TestTenant, testEvent, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';

describe('checkpoints of a context', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let sessionId: string;
  let run: string;

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
  beforeEach(async () => {
    sessionId = await tenant.session();
    await endedRun();
    run = (await tenant.accept(sessionId)).run.id;
  });

  async function endedRun(): Promise<void> {
    const { run } = await tenant.accept(sessionId);
    await tenant.lease(run.id);
    await reply(run.id, 1);
    await tenant.end({ runId: run.id, sessionId }, 1);
  }

  async function reply(runId: string, token: number): Promise<string> {
    const turnId = randomUUID();
    const id = randomUUID();
    const message = {
      id,
      sessionId,
      runId,
      turnId,
      role: 'assistant' as const,
      content: { text: 'said' },
      eventSeq: 0,
      createdAt: new Date().toISOString(),
    };
    const event = testEvent('assistant.completed', { message, finishReason: 'stop' }, turnId);
    await store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId, token },
      events: [event],
      changes: {
        turns: [{ id: turnId, iteration: 1, status: 'replied', usage: { inputTokens: 70, outputTokens: 7 } }],
        messages: [{ message, eventId: event.eventId }],
      },
    });
    return id;
  }

  const usage = { inputTokens: 5, outputTokens: 1 };
  function compact(token: number, firstKept: string, summary = 'a summary') {
    const checkpoint = { id: randomUUID(), summary, messages: 1, firstKept, createdAt: new Date().toISOString() };
    const payload = { messages: 2, summarised: 1, summary, usage, total: usage };
    return store.ledger.append({
      tenantId: tenant.tenantId,
      sessionId,
      run: { runId: run, token },
      events: [testEvent('context.compacted', payload)],
      changes: { checkpoint, run: { usage } },
    });
  }
  const release = () => observer.query("UPDATE runs SET lease_until = now() - interval '1 s' WHERE id = $1", [run]);

  it('stand for what came before, for the next attempt and the next run; the originals stay', async () => {
    const first = await tenant.lease(run);
    expect(first).toMatchObject({ measured: { tokens: 77 } });
    expect(first.checkpoint).toBeUndefined();
    expect(first.messages).toHaveLength(3);
    const [, said] = first.messages;
    await compact(1, said?.id ?? '');
    await release();
    const second = await tenant.lease(run);
    expect(second.messages).toEqual(first.messages.slice(1));
    expect(second.checkpoint).toMatchObject({ summary: 'a summary', messages: 1 });
    // What the provider counted is of the context before.
    expect(second.measured).toBeUndefined();
    expect(second.usage).toEqual(usage);

    const answer = await reply(run, 2);
    await tenant.end({ runId: run, sessionId }, 2);
    run = (await tenant.accept(sessionId)).run.id;
    const third = await tenant.lease(run);
    expect(third.messages.map(({ id }) => id)).toEqual([
      ...second.messages.map(({ id }) => id),
      answer,
      third.messages.at(-1)?.id,
    ]);
    expect(third).toMatchObject({ checkpoint: { summary: 'a summary' }, measured: { messageId: answer, tokens: 77 } });
    const all = await store.messages.list({ tenantId: tenant.tenantId, sessionId, limit: 100 });
    expect(all).toHaveLength(5);
  });

  it('give way to a later one, and never take the input of the run itself', async () => {
    const { messages } = await tenant.lease(run);
    const answer = await reply(run, 1);
    await compact(1, messages[1]?.id ?? '', 'the first');
    await compact(1, answer, 'the second');
    await release();
    const next = await tenant.lease(run);
    expect(next.checkpoint?.summary).toBe('the second');
    expect(next.messages.map(({ id }) => id)).toEqual([messages.at(-1)?.id, answer]);
  });

  it('are refused under a lost lease, and for a message that is not stored', async () => {
    const { messages } = await tenant.lease(run);
    await expect(compact(1, randomUUID())).rejects.toMatchObject({ code: 'invariant_broken' });
    await release();
    await tenant.lease(run);
    await expect(compact(1, messages[1]?.id ?? '')).rejects.toMatchObject({ code: 'lease_lost' });
    const { rows } = await observer.query('SELECT 1 FROM context_checkpoints WHERE session_id = $1', [sessionId]);
    expect(rows).toEqual([]);
  });

  it('go with what was said in the run that made them', async () => {
    const { messages } = await tenant.lease(run);
    await compact(1, messages[1]?.id ?? '');
    await tenant.end({ runId: run, sessionId }, 1);
    await observer.query("UPDATE runs SET ended_at = ended_at - interval '9 days' WHERE session_id = $1", [sessionId]);
    await observer.query("UPDATE sessions SET created_at = created_at - interval '9 days' WHERE id = $1", [sessionId]);
    await store.retention.pruneMessages({ tenantId: tenant.tenantId, olderThanDays: 7, limit: 1_000 });
    const { rows } = await observer.query('SELECT 1 FROM context_checkpoints WHERE session_id = $1', [sessionId]);
    expect(rows).toEqual([]);
  });
});
