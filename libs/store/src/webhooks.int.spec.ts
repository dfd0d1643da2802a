import { randomUUID } from 'node:crypto';
import { runEnd, WEBHOOK_EVENTS, type WebhookEvent } from '@codedock/domain';
import { awaitHorizon, createTestStore, type TestTenant, testTenant } from '@codedock/testkit';
import { Client } from 'pg';
import type { Store } from './contract.js';
import type { TakenDelivery } from './webhook-contract.js';

describe('webhooks', () => {
  let store: Store;
  let tenant: TestTenant;
  let close: () => Promise<void>;
  let observer: Client;

  beforeAll(async () => {
    let url: string;
    ({ store, url, close } = await createTestStore());
    observer = new Client({ connectionString: url });
    await observer.connect();
  });
  afterAll(async () => {
    await observer.end();
    await close();
  });
  beforeEach(async () => {
    await observer.query('DELETE FROM webhooks');
    tenant = await testTenant(store);
  });

  const create = (events: readonly WebhookEvent[] = WEBHOOK_EVENTS, of = tenant) =>
    store.webhooks.create({
      tenantId: of.tenantId,
      id: randomUUID(),
      url: 'https://example.com/',
      events,
      secret: 'whsec_AAAA',
      createdBy: 'key',
    });
  async function leased(of = tenant) {
    const sessionId = await of.session();
    const { run } = await of.accept(sessionId);
    await of.lease(run.id);
    return { runId: run.id, sessionId };
  }
  async function ended(of = tenant) {
    const run = await leased(of);
    await of.end(run, 1);
    return run;
  }
  const take = (more: Partial<Parameters<Store['webhooks']['take']>[0]> = {}) =>
    store.webhooks.take({ limit: 100, perWebhook: 100, holdMs: 60_000, except: [], ...more });
  async function fanOut() {
    await awaitHorizon(observer);
    return store.webhooks.fanOut();
  }
  const told = (taken: readonly TakenDelivery[]) => taken.map(({ event }) => [event?.type, event?.runId]);

  it('are told of what they asked for, of their tenant, from their creation on, once', async () => {
    await ended();
    const webhook = await create(['run.completed', 'tool.approval_required']);
    const stranger = await testTenant(store);
    await ended(stranger);
    const { runId } = await ended();
    const cancelled = await leased();
    await tenant.end(cancelled, 1, runEnd('cancelled'));
    const waiting = await leased();
    await tenant.park(waiting, 1, await tenant.turnWithCalls(waiting, 1, 1));
    expect(await fanOut()).toBe(2);
    expect(await fanOut()).toBe(0);
    const taken = await take();
    expect(told(taken).sort()).toEqual([
      ['run.completed', runId],
      ['tool.approval_required', waiting.runId],
    ]);
    expect(taken[0]).toMatchObject({ webhookId: webhook.id, attempt: 1, secret: 'whsec_AAAA', url: webhook.url });
    expect(await take()).toEqual([]);
  });

  it('miss no event of a transaction that commits late', async () => {
    await create();
    await fanOut();
    const late = await leased();
    await observer.query('BEGIN');
    await observer.query('SELECT codedock_leave($1::jsonb)', [
      JSON.stringify({
        tenantId: tenant.tenantId,
        sessionId: late.sessionId,
        run: { runId: late.runId, token: 1 },
        events: [],
        to: { kind: 'end', end: runEnd('completed') },
      }),
    ]);
    const early = await ended();
    await store.webhooks.fanOut();
    await observer.query('COMMIT');
    await fanOut();
    expect(told(await take()).sort()).toEqual(
      [
        ['run.completed', early.runId],
        ['run.completed', late.runId],
      ].sort(),
    );
  });

  it('are taken by one process each, and again when that one is gone', async () => {
    await create();
    await Promise.all([ended(), ended(), ended(), ended()]);
    await awaitHorizon(observer);
    const fanned = await Promise.all([store.webhooks.fanOut(), store.webhooks.fanOut()]);
    expect(fanned.sort()).toEqual([0, 4]);
    const [one, other] = await Promise.all([take({ limit: 2 }), take({ limit: 2 })]);
    const rest = await take();
    const ids = [...one, ...other, ...rest].map(({ id }) => id);
    expect(new Set(ids).size).toBe(4);
    expect(ids).toHaveLength(4);
    expect(await take()).toEqual([]);
    // The hold of one that is gone runs out: what it had taken is due again, and nothing else is.
    const gone = ids.slice(0, 2);
    await observer.query(
      'UPDATE webhook_deliveries SET next_at = now() - make_interval(secs => 1) WHERE id = ANY($1::uuid[])',
      [gone],
    );
    const again = await take();
    expect(again.map(({ id }) => id).sort()).toEqual([...gone].sort());
    expect(again.every(({ attempt }) => attempt === 2)).toBe(true);
  });

  it('share what is taken, and those that are busy are left out', async () => {
    const [slow, quick] = [await create(), await create()];
    await Promise.all([ended(), ended(), ended()]);
    await fanOut();
    const taken = await take({ perWebhook: 2 });
    const of = (id: string) => taken.filter(({ webhookId }) => webhookId === id).length;
    expect([of(slow.id), of(quick.id)]).toEqual([2, 2]);
    expect((await take({ except: [slow.id] })).map(({ webhookId }) => webhookId)).toEqual([quick.id]);
  });

  it('settle: delivered, tried again later, given up, and disabled when nothing has come through meanwhile', async () => {
    const webhook = await create();
    await ended();
    await fanOut();
    const [first] = await take();
    if (first === undefined) throw new Error('nothing was taken');
    const failed = { id: first.id, ok: false, gone: false, status: 500, error: 'no' };
    expect(await store.webhooks.settle({ ...failed, againMs: 3_600_000 })).toEqual({});
    expect(await take()).toEqual([]);
    const [listed] = await store.webhooks.deliveries({ tenantId: tenant.tenantId, webhookId: webhook.id, limit: 5 });
    expect(listed).toMatchObject({ state: 'pending', attempts: 1, responseStatus: 500, error: 'no' });
    await ended();
    await fanOut();
    const [second] = await take();
    await store.webhooks.settle({ id: second?.id ?? '', ok: true, gone: false, status: 200 });
    // Given up, but another one came through since: the webhook lives.
    expect(await store.webhooks.settle(failed)).toEqual({});
    expect(await store.webhooks.get(tenant.tenantId, webhook.id)).toMatchObject({
      status: 'enabled',
      lastSuccessAt: expect.any(String),
      lastFailureAt: expect.any(String),
    });
    await Promise.all([ended(), ended()]);
    await fanOut();
    const [third] = await take();
    const { disabled } = await store.webhooks.settle({ ...failed, id: third?.id ?? '' });
    expect(disabled).toContain('given up');
    expect(await store.webhooks.get(tenant.tenantId, webhook.id)).toMatchObject({
      status: 'disabled',
      disabledReason: disabled,
    });
    const states = await store.webhooks.deliveries({ tenantId: tenant.tenantId, webhookId: webhook.id, limit: 9 });
    expect(states.map(({ state }) => state).sort()).toEqual(['delivered', 'failed', 'failed', 'failed']);
    await ended();
    expect(await fanOut()).toBe(0);
    const audit = await observer.query("SELECT target FROM admin_audit WHERE action = 'webhook.disabled'");
    expect(audit.rows).toEqual([{ target: webhook.id }]);
  });

  it('settle many deliveries at once, a disabling one among them, without getting in each other’s way', async () => {
    for (let round = 0; round < 5; round += 1) {
      await create();
      await Promise.all(Array.from({ length: 12 }, () => ended()));
      await fanOut();
      const taken = await take();
      const settled = taken.map(({ id }, index) =>
        store.webhooks.settle({ id, ok: false, gone: false, ...(index % 3 === 0 ? {} : { againMs: 60_000 }) }),
      );
      const disabled = (await Promise.all(settled)).filter((one) => one.disabled !== undefined);
      expect(disabled).toHaveLength(1);
    }
  });

  it('are disabled at once by a receiver that is gone', async () => {
    const webhook = await create();
    await ended();
    await fanOut();
    const [taken] = await take();
    const gone = { id: taken?.id ?? '', ok: false, gone: true, status: 410 };
    expect((await store.webhooks.settle(gone)).disabled).toContain('410');
    expect((await store.webhooks.get(tenant.tenantId, webhook.id)).status).toBe('disabled');
  });

  it('say when an event is not kept any more, and forget what is long settled', async () => {
    await create();
    const { sessionId } = await ended();
    await fanOut();
    await observer.query('DELETE FROM events WHERE session_id = $1', [sessionId]);
    const [taken] = await take();
    expect(taken).toBeDefined();
    expect(taken?.event).toBeUndefined();
    await store.webhooks.settle({ id: taken?.id ?? '', ok: true, gone: false });
    expect(await store.webhooks.forget(3_600_000, 100)).toBe(0);
    await observer.query("UPDATE webhook_deliveries SET settled_at = settled_at - interval '2 hours' WHERE id = $1", [
      taken?.id,
    ]);
    expect(await store.webhooks.forget(3_600_000, 100)).toBe(1);
  });

  it('are of one tenant and hide their secret', async () => {
    const webhook = await create();
    expect(JSON.stringify([webhook, await store.webhooks.list(tenant.tenantId)])).not.toContain('whsec_');
    const { tenantId } = await testTenant(store);
    await expect(store.webhooks.get(tenantId, webhook.id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(store.webhooks.delete(tenantId, webhook.id)).rejects.toMatchObject({ code: 'not_found' });
    await store.webhooks.delete(tenant.tenantId, webhook.id);
    expect(await store.webhooks.list(tenant.tenantId)).toEqual([]);
  });
});
