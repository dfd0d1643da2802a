import { randomUUID } from 'node:crypto';
import {
  awaitHorizon,
  createTestStore,
  eventuallyDefined,
  type TestTenant,
  testEvent,
  testTenant,
} from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';
import type { DeliveryBatch } from './plugin-delivery-contract.js';

describe('durable delivery to plugins', () => {
  let store: Store;
  let url: string;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;
  let plugin: string;

  beforeAll(async () => {
    ({ store, url, close } = await createTestStore());
    observer = await connected();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });
  beforeEach(async () => {
    await observer.query('DELETE FROM plugin_feeds');
    await observer.query('DELETE FROM plugin_cursors');
    tenant = await testTenant(store);
    plugin = `p-${randomUUID()}`;
  });

  async function connected() {
    const client = new Client({ connectionString: url });
    await client.connect();
    return client;
  }
  const take = (more: Partial<Parameters<Store['pluginDeliveries']['take']>[0]> = {}) =>
    store.pluginDeliveries.take({
      plugin,
      events: ['extension.event', 'run.created'],
      holdMs: 60_000,
      limit: 100,
      maxBytes: 1_000_000,
      ...more,
    });
  const settle = (batch: DeliveryBatch, deliveredSeq = batch.throughSeq, error?: string) =>
    store.pluginDeliveries.settle({
      plugin,
      sessionId: batch.sessionId,
      lease: batch.lease,
      deliveredSeq,
      ...(error === undefined ? {} : { error }),
    });
  const told = (batch: DeliveryBatch | undefined) => batch?.events.map(({ seq }) => seq);
  const batchOf = (sessionId: string, text = 'x', type: 'extension.event' | 'assistant.delta' = 'extension.event') => ({
    tenantId: tenant.tenantId,
    sessionId,
    events: [
      type === 'assistant.delta'
        ? testEvent('assistant.delta', { text })
        : testEvent('extension.event', { extension: 'e', name: 'n', payload: { text } }),
    ],
  });
  const append = (sessionId: string, text?: string) => store.ledger.append(batchOf(sessionId, text));
  /** What a transaction of its own appends; its transaction id is from its begin. */
  const appendBy = (client: Client, sessionId: string) =>
    client.query('SELECT codedock_append($1::jsonb)', [JSON.stringify(batchOf(sessionId))]);
  /** Takes once all that is committed can be taken. */
  async function taken(more: Parameters<typeof take>[0] = {}): Promise<DeliveryBatch> {
    await awaitHorizon(observer);
    return eventuallyDefined(() => take(more));
  }
  async function dueNow() {
    await observer.query("UPDATE plugin_feeds SET next_at = now() - interval '1 second' WHERE next_at IS NOT NULL");
  }

  it('begins with the first take, gives what is subscribed to in order, and nothing twice once it is settled', async () => {
    const sessionId = await tenant.session();
    expect(await take()).toBeUndefined();
    await store.ledger.append(batchOf(sessionId, 'delta', 'assistant.delta'));
    await append(sessionId, 'one');
    await append(sessionId, 'two');
    const batch = await taken();
    expect(batch).toMatchObject({ tenantId: tenant.tenantId, sessionId, attempt: 1, throughSeq: 3 });
    expect(batch.events.map(({ seq, payload }) => [seq, payload])).toEqual([
      [2, { extension: 'e', name: 'n', payload: { text: 'one' } }],
      [3, { extension: 'e', name: 'n', payload: { text: 'two' } }],
    ]);
    expect(batch.events[0]?.principal).toEqual({ tenant: tenant.tenantId, key: '', agent: '', metadata: {} });
    expect(await settle(batch)).toBe(true);
    expect(await take()).toBeUndefined();
    await append(sessionId, 'three');
    expect(told(await taken())).toEqual([4]);
  });

  it('says for whom the run is', async () => {
    await take();
    const sessionId = await tenant.session();
    await tenant.accept(sessionId, {
      principal: { tenant: tenant.tenantId, key: 'k', actor: 'ann', agent: 'a', mode: 'm', metadata: { a: 1 } },
    });
    expect((await taken()).events[0]?.principal).toEqual({
      tenant: tenant.tenantId,
      key: 'k',
      actor: 'ann',
      agent: 'a',
      mode: 'm',
      metadata: { a: 1 },
    });
  });

  it('misses no event of a transaction that commits late, and tells a session in order whatever ids it used', async () => {
    const [late, other, sessionId] = [await tenant.session(), await tenant.session(), await tenant.session()];
    await take();
    const holder = await connected();
    const early = await connected();
    try {
      // Gets its id first, appends last.
      await early.query('BEGIN');
      await early.query('SELECT pg_current_xact_id()');
      await holder.query('BEGIN');
      await appendBy(holder, late);
      await append(sessionId);
      await append(other);
      await appendBy(early, sessionId);
      await early.query('COMMIT');
      // The one with the lower id is below the horizon, which the holder's is not.
      const first = await eventuallyDefined(() => take());
      expect(first.sessionId).toBe(sessionId);
      expect(told(first)).toEqual([1, 2]);
      await settle(first);
      expect(await take()).toBeUndefined();
      await holder.query('COMMIT');
      const rest = [await taken(), await taken()];
      expect(rest.map((batch) => [batch.sessionId, told(batch)]).sort()).toEqual(
        [
          [late, [1]],
          [other, [1]],
        ].sort(),
      );
      for (const batch of rest) await settle(batch);
      expect(await take()).toBeUndefined();
    } finally {
      await holder.end();
      await early.end();
    }
  });

  it('gives a session to one taker, and to another when the hold of that one has run out', async () => {
    await take();
    const sessions = [await tenant.session(), await tenant.session()];
    for (const sessionId of sessions) await append(sessionId);
    const first = await taken();
    const second = await taken();
    expect([first.sessionId, second.sessionId].sort()).toEqual([...sessions].sort());
    expect(await Promise.all([take(), take()])).toEqual([undefined, undefined]);
    await append(first.sessionId);
    expect(await take()).toBeUndefined();
    await dueNow();
    const again = await taken();
    expect(again.attempt).toBe(2);
    // The one that was too slow settles nothing any more.
    const slow = again.sessionId === first.sessionId ? first : second;
    expect(await settle(slow)).toBe(false);
    expect(await settle(again)).toBe(true);
  });

  it('gives again from where it failed, later each time, and says what is behind', async () => {
    await take();
    const sessionId = await tenant.session();
    for (const text of ['a', 'b', 'c']) await append(sessionId, text);
    const batch = await taken();
    expect(told(batch)).toEqual([1, 2, 3]);
    expect(await settle(batch, 1, 'the plugin said no')).toBe(true);
    await observer.query("UPDATE plugin_feeds SET next_at = next_at + interval '1 hour' WHERE next_at > now()");
    expect(await take()).toBeUndefined();
    const [state] = await store.pluginDeliveries.states();
    expect(state).toMatchObject({ plugin, waitingSessions: 1, error: 'the plugin said no', attempts: 1 });
    expect(state?.lagMs).toBeGreaterThanOrEqual(0);
    const delays: number[] = [];
    for (let failures = 0; failures < 9; failures += 1) {
      await dueNow();
      const again = await taken();
      expect(told(again)).toEqual([2, 3]);
      await settle(again, 0, 'still no');
      const { rows } = await observer.query(
        'SELECT extract(epoch FROM next_at - clock_timestamp()) AS s FROM plugin_feeds',
      );
      delays.push(Number(rows[0].s));
    }
    expect(delays.at(-1)).toBeGreaterThan(20);
    expect(Math.max(...delays)).toBeLessThan(67);
    await dueNow();
    await settle(await taken());
    expect(await store.pluginDeliveries.states()).toEqual([{ plugin, waitingSessions: 0 }]);
  });

  it('counts as behind what nobody has looked for yet', async () => {
    await take();
    await append(await tenant.session());
    const [state] = await store.pluginDeliveries.states();
    expect(state).toMatchObject({ plugin, waitingSessions: 0 });
    expect(state?.lagMs).toBeGreaterThanOrEqual(0);
  });

  it('gives at most so many events and bytes at once, and at least one', async () => {
    await take();
    const sessionId = await tenant.session();
    for (let n = 0; n < 5; n += 1) await append(sessionId, 'x'.repeat(1_000));
    const some = await taken({ limit: 2 });
    expect([told(some), some.throughSeq]).toEqual([[1, 2], 2]);
    await settle(some);
    const big = await taken({ maxBytes: 10 });
    expect([told(big), big.throughSeq]).toEqual([[3], 3]);
    await settle(big);
    const rest = await taken();
    expect(told(rest)).toEqual([4, 5]);
    await settle(rest);
    expect(await take()).toBeUndefined();
  });

  it('serves plugins apart, and forgets one that nobody asks for', async () => {
    const second = `q-${randomUUID()}`;
    await take();
    await take({ plugin: second });
    await append(await tenant.session());
    const mine = await taken();
    await settle(mine, 0, 'no');
    expect((await taken({ plugin: second })).sessionId).toBe(mine.sessionId);
    expect(await store.pluginDeliveries.forget(3_600_000)).toEqual([]);
    await observer.query("UPDATE plugin_cursors SET asked_at = now() - interval '2 hours' WHERE plugin = $1", [plugin]);
    expect(await store.pluginDeliveries.forget(3_600_000)).toEqual([plugin]);
    expect((await store.pluginDeliveries.states()).map((state) => state.plugin)).toEqual([second]);
    const { rows } = await observer.query(
      "SELECT detail FROM admin_audit WHERE action = 'plugin.delivery_forgotten' AND target = $1",
      [plugin],
    );
    expect(rows).toEqual([{ detail: { waitingSessions: 1 } }]);
  });

  it('loses a session that is deleted', async () => {
    await take();
    const sessionId = await tenant.session();
    await append(sessionId);
    const batch = await taken();
    await observer.query('DELETE FROM sessions WHERE id = $1', [sessionId]);
    expect(await settle(batch)).toBe(false);
    expect(await take()).toBeUndefined();
  });
});
