import { type JsonObject, patchedScratchpad, type ScratchpadPatch } from '@codedock/domain';
import { createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import fc from 'fast-check';
import { Client } from 'pg';
import type { Store } from './contract.js';
import type { ScratchpadChange } from './ledger-contract.js';

describe('the scratchpad of a run', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let run: { runId: string; sessionId: string };

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
    const sessionId = await tenant.session();
    run = { sessionId, runId: (await tenant.accept(sessionId, { scratchpad: { kept: 1 } })).run.id };
    await tenant.lease(run.runId);
  });
  const merge = async (...scratchpad: ScratchpadChange[]) =>
    (
      await store.ledger.append({
        tenantId: tenant.tenantId,
        sessionId: run.sessionId,
        run: { runId: run.runId, token: 1 },
        events: [],
        changes: { run: { scratchpad } },
      })
    ).scratchpad;
  const notes = async () =>
    (await store.audit.byRun({ tenantId: tenant.tenantId, runId: run.runId, limit: 50 })).map(
      ({ gate, outcome, reason }) => ({
        gate,
        outcome,
        reason,
      }),
    );

  it('merges by top-level key, in order, and survives a new attempt', async () => {
    const bag = await merge(
      { gate: 'beforeToolCall', patch: { set: { a: null, b: 1 }, deleted: [] } },
      { gate: 'beforeToolCall', patch: { set: { b: [2] }, deleted: ['kept'] } },
    );
    expect(bag).toEqual({ a: null, b: [2] });
    await store.runs.handBack(run.runId, 1);
    expect((await tenant.lease(run.runId)).scratchpad).toEqual(bag);
  });

  it('merges as the domain does, whatever is set and deleted', async () => {
    const key = fc.constantFrom('a', 'b', 'ü', '');
    const value = fc.jsonValue({ maxDepth: 2 }).map((json) => JSON.parse(JSON.stringify(json)));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ set: fc.dictionary(key, value, { maxKeys: 3 }), deleted: fc.uniqueArray(key) }), {
          maxLength: 4,
        }),
        async (patches) => {
          const before = (await merge({ gate: 'g', patch: { set: {}, deleted: [] } })) as JsonObject;
          const expected = patches.reduce<JsonObject>(
            (bag, patch) => patchedScratchpad(bag, patch as ScratchpadPatch),
            before,
          );
          fc.pre(Buffer.byteLength(JSON.stringify(expected)) < 4_000);
          const bag = await merge(
            { gate: 'g', patch: { set: {}, deleted: [] } },
            ...patches.map((patch) => ({ gate: 'g', patch: patch as ScratchpadPatch })),
          );
          expect(bag).toEqual(expected);
        },
      ),
      { numRuns: 60, examples: [[[{ set: { a: 1 }, deleted: ['a'] }]]] },
    );
  });

  it('records a conflict, and the later write wins', async () => {
    const sent = { kept: 1 };
    const bag = await merge(
      { gate: 'beforeToolCall', sent, patch: { set: { kept: 2 }, deleted: [] } },
      { gate: 'afterToolCall', sent, patch: { set: { kept: 3, own: 1 }, deleted: [] } },
    );
    expect(bag).toEqual({ kept: 3, own: 1 });
    expect(await notes()).toEqual([{ gate: 'afterToolCall', outcome: 'changed', reason: 'scratchpad.conflict: kept' }]);
  });

  it('drops an update over 8 KiB and keeps the others', async () => {
    const fits = 'x'.repeat(8_192 - Buffer.byteLength('{"kept":1,"big":""}'));
    const bag = await merge(
      { gate: 'a', patch: { set: { big: `${fits}x` }, deleted: [] } },
      { gate: 'b', patch: { set: { big: fits }, deleted: [] } },
      { gate: 'c', patch: { set: { one: 1 }, deleted: [] } },
    );
    expect(bag).toEqual({ kept: 1, big: fits });
    expect((await notes()).map(({ gate, outcome }) => `${gate} ${outcome}`)).toEqual(['a oversize', 'c oversize']);
  });

  it('measures a bag as compact JSON text does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(
          fc.string({ unit: 'binary' }),
          fc.oneof(
            fc.string({ unit: 'binary' }),
            fc.integer(),
            fc.boolean(),
            fc.array(fc.dictionary(fc.string(), fc.constant(null))),
          ),
        ),
        async (bag) => {
          const text = JSON.stringify(bag);
          fc.pre(!text.includes('\\u0000'));
          const { rows } = await observer.query<{ bytes: string }>('SELECT codedock_json_bytes($1::jsonb) AS bytes', [
            text,
          ]);
          expect(Number(rows[0]?.bytes)).toBe(Buffer.byteLength(text));
        },
      ),
      { numRuns: 100 },
    );
  });
});
