import { compileMatch } from '@codedock/plugin-bridge';
import { host, plugin } from '@codedock/proto';
import pino from 'pino';
import { failure } from '../grpc/status.js';
import { type DeliveryTarget, DurableDelivery } from './durable-delivery.js';

const log = pino({ level: 'silent' });

function batchOf(sessionId: string, seqs: readonly number[], tenant = 'acme'): host.EventBatch {
  return host.EventBatch.fromPartial({
    lease: `lease of ${sessionId}`,
    sessionId,
    throughSeq: 100,
    attempt: 1,
    events: seqs.map((eventSeq) =>
      plugin.Envelope.fromPartial({
        type: 'run.started',
        sessionId,
        eventSeq,
        principal: Buffer.from(JSON.stringify({ tenant, agent: '', mode: '' })),
      }),
    ),
  });
}

/** A gateway with batches per plugin, and what it was told of them. */
function gatewayWith(batches: Record<string, host.EventBatch[]>) {
  const settled: Record<string, unknown>[] = [];
  const waiting: { reached: () => boolean; resolve: () => void }[] = [];
  let failures = 0;
  return {
    settled,
    failNext: (count: number) => {
      failures = count;
    },
    settles: (count: number) =>
      new Promise<void>((resolve) => {
        if (settled.length >= count) resolve();
        else waiting.push({ reached: () => settled.length >= count, resolve });
      }),
    api: {
      takeEvents: async ({ caller }: host.TakeEventsRequest) => {
        if (failures-- > 0) throw failure(14, 'no gateway');
        return batches[caller?.plugin ?? '']?.shift() ?? host.EventBatch.create();
      },
      settleEvents: async ({ caller, sessionId, lease, deliveredSeq, error }: host.SettleEventsRequest) => {
        settled.push({ plugin: caller?.plugin, sessionId, lease, deliveredSeq, error });
        for (const one of waiting) if (one.reached()) one.resolve();
        return { held: true };
      },
    },
  };
}

function target(name: string, deliver: DeliveryTarget['deliver'], more: Partial<DeliveryTarget> = {}): DeliveryTarget {
  return { name, events: ['run.started'], matches: undefined, timeoutMs: 1_000, deliver, ...more };
}

function delivering(api: ConstructorParameters<typeof DurableDelivery>[0]['api'], targets: readonly DeliveryTarget[]) {
  const delivery = new DurableDelivery({ api, instanceId: 'i', log, targets: () => targets });
  delivery.refresh();
  return delivery;
}

describe('durable delivery', () => {
  it('gives a session its events in order, one at a time, and says how far it came', async () => {
    const gateway = gatewayWith({ p: [batchOf('s', [3, 5, 9])] });
    const seen: number[] = [];
    let open = 0;
    const delivery = delivering(gateway.api, [
      target('p', async ({ eventSeq, budgetMs }) => {
        expect([++open, budgetMs]).toEqual([1, 1_000]);
        await new Promise(setImmediate);
        open--;
        seen.push(eventSeq);
        return '';
      }),
    ]);
    await gateway.settles(1);
    await delivery.close();
    expect(seen).toEqual([3, 5, 9]);
    expect(gateway.settled).toEqual([
      { plugin: 'p', sessionId: 's', lease: 'lease of s', deliveredSeq: 100, error: '' },
    ]);
  });

  it('stops a session at the event that fails, and goes on with others and with other plugins', async () => {
    const gateway = gatewayWith({ p: [batchOf('bad', [1, 2, 3]), batchOf('good', [1])], q: [batchOf('s', [1])] });
    const delivery = delivering(gateway.api, [
      target('p', async ({ sessionId, eventSeq }) => (sessionId === 'bad' && eventSeq === 2 ? 'it said no' : '')),
      target('q', async () => ''),
    ]);
    await gateway.settles(3);
    await delivery.close();
    const outcomes = gateway.settled.map((one) => [one['plugin'], one['sessionId'], one['deliveredSeq'], one['error']]);
    expect(outcomes.sort()).toEqual([
      ['p', 'bad', 1, 'it said no'],
      ['p', 'good', 100, ''],
      ['q', 's', 100, ''],
    ]);
  });

  it('counts events it does not match as delivered, and a batch without events as done', async () => {
    const gateway = gatewayWith({ p: [batchOf('s', [1, 2], 'other'), batchOf('empty', [])] });
    const delivery = delivering(gateway.api, [
      target('p', async () => 'not for me', { matches: compileMatch(JSON.stringify({ tenants: ['acme'] })) }),
    ]);
    await gateway.settles(2);
    await delivery.close();
    expect(gateway.settled.map(({ deliveredSeq, error }) => [deliveredSeq, error])).toEqual([
      [100, ''],
      [100, ''],
    ]);
  });

  it('goes on when the gateway was away', async () => {
    const gateway = gatewayWith({ p: [batchOf('s', [1])] });
    gateway.failNext(1);
    const delivery = delivering(gateway.api, [target('p', async () => '')]);
    await gateway.settles(1);
    await delivery.close();
    expect(gateway.settled).toHaveLength(1);
  });

  it('finishes the event under way when it is closed, gives the rest back, and takes nothing more', async () => {
    const gateway = gatewayWith({ p: [batchOf('s', [1, 2]), batchOf('never', [1])] });
    let release: () => void = () => undefined;
    let begun: () => void = () => undefined;
    const began = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const delivery = delivering(gateway.api, [
      target('p', ({ sessionId }) => {
        if (sessionId === 'never') return Promise.resolve('');
        begun();
        return new Promise((done) => {
          release = () => done('');
        });
      }),
    ]);
    await began;
    const closed = delivery.close();
    release();
    await closed;
    expect(gateway.settled.find(({ sessionId }) => sessionId === 's')).toMatchObject({ deliveredSeq: 1, error: '' });
  });
});
