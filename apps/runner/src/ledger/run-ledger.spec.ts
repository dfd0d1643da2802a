import {
  AppError,
  type GatedCall,
  type HookRecord,
  type RunSnapshot,
  runEnd,
  type ToolCall,
  type Turn,
  type TurnReply,
} from '@codedock/domain';
import type { AppendBatch, Appended } from '@codedock/store';
import { RunLedger } from './run-ledger.js';

const turn: Turn = { id: 'turn', iteration: 1 };
const gated: GatedCall = { digest: 'd', gateVersion: 'g', decision: 'proceed', reasons: [] };
const record: HookRecord = {
  gate: 'beforeToolCall',
  hook: 'p',
  outcome: 'continued',
  startedMs: 0,
  durationMs: 1,
  queueMs: 0,
};

const snapshot = {
  runId: 'run',
  sessionId: 'session',
  tenantId: 'tenant',
  attempt: 3,
  principal: { tenant: 't', key: 'k', agent: 'a', metadata: {} },
  usage: { inputTokens: 1, outputTokens: 1 },
  scratchpad: { kept: 1 },
  metadata: {},
} as unknown as RunSnapshot;

/** A database that can be slow or refuse. */
class Appends {
  readonly batches: AppendBatch[] = [];
  /** Answers one append; absent = succeeds at once. */
  answer: (batch: AppendBatch) => Promise<Partial<Appended>> = async () => ({});
  readonly append = async (batch: AppendBatch): Promise<Appended> => {
    this.batches.push(batch);
    return { firstSeq: 1, lastSeq: 1, events: [], ...(await this.answer(batch)) };
  };
  types(index: number): string[] {
    return this.batches[index]?.events.map(({ type }) => type) ?? [];
  }
}

function open() {
  const database = new Appends();
  const lost: unknown[] = [];
  let id = 0;
  const ledger = new RunLedger({
    snapshot,
    ids: { next: () => `id-${++id}` },
    clock: { now: () => 0, sleep: async () => undefined },
    append: database.append,
    onLost: (error) => lost.push(error),
  });
  return { ledger, database, lost };
}

/** A promise and its key. */
function gateOf() {
  let open: (value: Partial<Appended>) => void = () => {};
  const passed = new Promise<Partial<Appended>>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open({}) };
}

const call = (id: string, more: Partial<ToolCall> = {}): ToolCall => ({
  id,
  turnId: 'turn',
  index: 0,
  name: 'ping',
  arguments: {},
  state: 'proposed',
  effect: 'pure',
  executions: 0,
  ...more,
});

const reply = (text: string, calls: ToolCall[] = []): TurnReply => ({
  message: { id: 'm', sessionId: 'session', role: 'assistant', content: { text }, eventSeq: 0, createdAt: '' },
  calls,
  usage: { inputTokens: 2, outputTokens: 3 },
  finishReason: 'stop',
});

describe('write combining', () => {
  it('counts a call of which nothing is stored in the totals that follow', async () => {
    const { ledger, database } = open();
    await Promise.all([
      ledger.usageRecorded(turn, { inputTokens: 5, outputTokens: 1 }),
      ledger.assistantCompleted(turn, reply('hi')),
    ]);
    expect(database.batches[0]?.events).toMatchObject([
      { type: 'turn.usage_recorded', payload: { usage: { inputTokens: 5, outputTokens: 1 } } },
      { type: 'assistant.completed' },
      { type: 'turn.usage_recorded', payload: { total: { inputTokens: 8, outputTokens: 5 } } },
    ]);
    expect(database.batches[0]?.changes?.run?.usage).toEqual({ inputTokens: 7, outputTokens: 4 });
  });

  it('stores facts of one moment in one statement, later ones in the next, in order', async () => {
    const { ledger, database } = open();
    const slow = gateOf();
    database.answer = () => slow.passed;
    const first = [ledger.runStarted({ systemPrompt: 's', hidden: [] }), ledger.turnStarted(turn, ['ping'])];
    await new Promise(setImmediate);
    const second = [
      ledger.assistantStarted(turn),
      ledger.assistantCompleted(turn, reply('hi')),
      ledger.turnCompleted(turn),
    ];
    slow.open();
    await Promise.all([...first, ...second]);
    expect(database.types(0)).toEqual(['run.started', 'turn.started']);
    expect(database.types(1)).toEqual([
      'assistant.started',
      'assistant.completed',
      'turn.usage_recorded',
      'turn.completed',
    ]);
    expect(database.batches).toHaveLength(2);
    expect(database.batches[1]).toMatchObject({
      run: { runId: 'run', token: 3 },
      changes: { run: { usage: { inputTokens: 2, outputTokens: 3 }, progress: true } },
    });
  });

  it('gives what is on its way to the transaction that ends the run, and then takes nothing more', async () => {
    const { ledger, database } = open();
    const noted = ledger.turnCompleted(turn);
    const end = runEnd('completed');
    const written = await ledger.leave(async ({ events, changes }) => {
      expect(events.map(({ type }) => type)).toEqual(['turn.completed']);
      expect(changes.turns).toHaveLength(1);
      return end;
    });
    expect(written).toBe(end);
    await noted;
    expect(database.batches).toHaveLength(0);
    await expect(ledger.turnCompleted(turn)).rejects.toMatchObject({ code: 'lease_lost' });
  });

  it('adds usage over replies', async () => {
    const { ledger, database } = open();
    await ledger.assistantCompleted(turn, reply('a'));
    await ledger.assistantCompleted(turn, reply('b'));
    expect(database.batches[1]?.events[1]).toMatchObject({ payload: { total: { inputTokens: 5, outputTokens: 7 } } });
  });
});

describe('deltas', () => {
  it('go out at once, then coalesced, and before the reply', async () => {
    const { ledger, database } = open();
    const slow = gateOf();
    database.answer = () => slow.passed;
    void ledger.assistantStarted(turn);
    ledger.assistantDelta(turn, 'a');
    await new Promise(setImmediate);
    expect(database.types(0)).toEqual(['assistant.started', 'assistant.delta']);
    for (const text of ['b', 'c', 'd']) ledger.assistantDelta(turn, text);
    const stored = ledger.assistantCompleted(turn, reply('abcd'));
    slow.open();
    await stored;
    expect(database.batches[1]?.events.map(({ payload }) => payload)[0]).toEqual({ text: 'bcd' });
    expect(database.types(1)).toEqual(['assistant.delta', 'assistant.completed', 'turn.usage_recorded']);
  });

  it('are one row per 2 KiB at least', async () => {
    const { ledger, database } = open();
    void ledger.assistantStarted(turn);
    for (let i = 0; i < 10; i += 1) ledger.assistantDelta(turn, 'x'.repeat(1_000));
    await ledger.assistantCompleted(turn, reply(''));
    const texts = database.batches.flatMap(({ events }) =>
      events.flatMap((e) => (e.type === 'assistant.delta' ? [e.payload.text] : [])),
    );
    expect(texts.join('')).toHaveLength(10_000);
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(3_000);
    expect(texts.length).toBeLessThan(10);
  });
});

describe('gates', () => {
  it('store records and bag changes with the next fact, and show each gate the bag as it is then', async () => {
    const { ledger, database } = open();
    const first = ledger.gate({ turnId: 'turn', callId: 'c' }, new AbortController().signal);
    expect(first.scratchpad).toEqual({ kept: 1 });
    expect(() => Object.assign(first.scratchpad, { x: 1 })).toThrow();
    first.record(record);
    first.merge({ set: { seen: [1] }, deleted: [] });
    expect(ledger.gate({}, new AbortController().signal).scratchpad).toEqual({ kept: 1, seen: [1] });
    await ledger.callGated(call('c'), gated);
    expect(database.batches[0]?.changes).toMatchObject({
      records: [{ record, site: { tenantId: 'tenant', runId: 'run', attempt: 3, turnId: 'turn', callId: 'c' } }],
      run: { scratchpad: [{ patch: { set: { seen: [1] }, deleted: [] }, sent: { kept: 1 }, gate: 'beforeToolCall' }] },
    });
  });

  it('take over what the store made of the bag', async () => {
    const { ledger, database } = open();
    database.answer = async () => ({ scratchpad: { other: true } });
    ledger.gate({}, new AbortController().signal).merge({ set: { mine: 1 }, deleted: [] });
    await ledger.turnCompleted(turn);
    expect(ledger.scratchpad).toEqual({ other: true });
  });

  it('drop a bag that grew over its limit', () => {
    const { ledger } = open();
    ledger.gate({}, new AbortController().signal).merge({ set: { big: 'x'.repeat(9_000) }, deleted: [] });
    expect(ledger.scratchpad).toEqual({ kept: 1 });
  });

  it('are stored by a flush when no fact follows', async () => {
    const { ledger, database } = open();
    ledger.gate({}, new AbortController().signal).record(record);
    ledger.metadataChanged({ n: 1 });
    await ledger.flush();
    expect(database.batches[0]).toMatchObject({
      events: [],
      changes: { records: [{ record }], run: { metadata: { n: 1 } } },
    });
  });
});

describe('refusals', () => {
  it('a lost lease rejects everything, once and for all, and says so once', async () => {
    const { ledger, database, lost } = open();
    database.answer = async () => {
      throw new AppError('lease_lost', 'another has it');
    };
    const noted = [ledger.turnStarted(turn, []), ledger.assistantStarted(turn)];
    for (const fact of noted) await expect(fact).rejects.toMatchObject({ code: 'lease_lost' });
    await expect(ledger.turnCompleted(turn)).rejects.toMatchObject({ code: 'lease_lost' });
    await expect(ledger.leave(async () => 'written')).rejects.toMatchObject({ code: 'lease_lost' });
    expect(lost).toHaveLength(1);
    expect(database.batches).toHaveLength(1);
  });

  it('a broken seal refuses its own execution only', async () => {
    const { ledger, database, lost } = open();
    const broken = (batch: AppendBatch) =>
      batch.changes?.calls?.some(({ id, expect: seal }) => id === 'b' && seal !== undefined);
    database.answer = async (batch) => {
      if (broken(batch)) throw new AppError('seal_broken', 'changed');
      return {};
    };
    ledger.gate({}, new AbortController().signal).record(record);
    const results = await Promise.allSettled([
      ledger.executionStarted(call('a'), 1, gated),
      ledger.executionStarted(call('b'), 1, gated),
      ledger.executionStarted(call('c'), 1, gated),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(lost).toHaveLength(0);
    const stored = database.batches.filter((batch) => !broken(batch));
    expect(stored.flatMap(({ changes }) => changes?.records ?? [])).toHaveLength(1);
  });
});

it('repairs text that no database takes', async () => {
  const { ledger, database } = open();
  await ledger.executionFinished(call('a'), 1, { success: true, output: { 'k\0': 'a\ud800' } }, 'tool');
  expect(JSON.stringify(database.batches[0])).not.toMatch(/\\u0000|\\ud800/);
  expect(database.batches[0]?.events[0]).toMatchObject({ payload: { result: { output: { 'k\ufffd': 'a\ufffd' } } } });
});
