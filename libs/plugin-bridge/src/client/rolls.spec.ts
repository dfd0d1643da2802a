import { eventually } from '@codedock/testkit';
import {
  askInput,
  askTool,
  connected,
  hostWith,
  json,
  outcomes,
  readyWith,
  started,
} from '../../test-support/connected-hosts.js';
import { answerTo, failing, GateHost, snapshotWith, until } from '../../test-support/gate-host.js';
import { opened } from '../../test-support/opened-call.js';

describe('several replicas', () => {
  it('a port is subscribed if one of them says so, and that one is asked', async () => {
    const a = await hostWith({ 'agent/input': [{}] });
    const b = await hostWith({ 'tools/pre-execute': [{}] });
    const bridge = await readyWith([a, b]);
    await until(() => bridge.ports().length === 2, 'both');
    await askInput(bridge);
    await askTool(bridge);
    expect([a.asked.length, b.asked.length]).toEqual([1, 1]);
  });

  it('the one with fewer calls under way is asked', async () => {
    const hosts = [await hostWith({ 'agent/input': [{}] }), await hostWith({ 'agent/input': [{}] })];
    const bridge = await readyWith(hosts);
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    for (const host of hosts) {
      host.onDispatch = async (request) => {
        await held;
        return answerTo(request);
      };
    }
    const asked = [askInput(bridge), askInput(bridge), askInput(bridge), askInput(bridge)];
    await until(() => hosts.every((host) => host.asked.length === 2), 'shared evenly');
    free();
    await Promise.all(asked);
  });

  it('one that let a gate run out of time is asked last, until it says something', async () => {
    const hosts = [await hostWith({ 'agent/input': [{}] }), await hostWith({ 'agent/input': [{}] })];
    const bridge = await readyWith(hosts, { gateTimeoutMs: 1_000 });
    for (const host of hosts) {
      host.onDispatch = async (request) => {
        if (host === silent) await new Promise(() => undefined);
        return answerTo(request);
      };
    }
    let silent: GateHost | undefined;
    await askInput(bridge);
    silent = hosts.find(({ asked }) => asked.length > 0);
    const [other] = hosts.filter((host) => host !== silent);
    await expect(askInput(bridge)).resolves.toMatchObject({ kind: 'could_not_ask', code: 'gate_timeout' });
    for (let asks = 0; asks < 4; asks++) await expect(askInput(bridge)).resolves.toEqual({ kind: 'continue' });
    expect([silent?.asked.length, other?.asked.length]).toEqual([2, 4]);
    // Where there is no other, it is asked all the same.
    other?.kill();
    const still = silent;
    silent = undefined;
    await eventually(async () => expect(await askInput(bridge)).toEqual({ kind: 'continue' }));
    expect(still?.asked.length).toBeGreaterThan(2);
  });

  it('one whose required plugin is down is passed over', async () => {
    const down = await hostWith({ 'agent/input': [{ ready: false }] });
    const up = await hostWith({ 'agent/input': [{}] });
    const bridge = await readyWith([down, up]);
    for (let asks = 0; asks < 4; asks++) await askInput(bridge);
    expect([down.asked.length, up.asked.length]).toEqual([0, 4]);
  });

  it('one that lacks a plugin which another asks is passed over, until it is the only one', async () => {
    const before = await hostWith({ 'agent/input': [{ plugin: 'old' }] });
    const after = await hostWith({ 'agent/input': [{ plugin: 'old' }, { plugin: 'new' }] });
    const bridge = await readyWith([before, after]);
    await until(() => bridge.differences().length > 0, 'both known');
    expect(bridge.differences()).toEqual([
      {
        port: 'agent/input',
        plugin: 'new',
        replicas: [before, after]
          .map((host) => ({ replica: `ipv4:${host.url}`, ...(host === after ? { version: '1.0.0' } : {}) }))
          .sort((a, b) => (a.replica < b.replica ? -1 : 1)),
      },
    ]);
    const calls = Array.from({ length: 20 }, () => askInput(bridge));
    expect((await Promise.all(calls)).every(({ kind }) => kind === 'continue')).toBe(true);
    expect([before.asked.length, after.asked.length]).toEqual([0, 20]);
    // It is never waited for: a plugin that was taken out on the newer replicas would end every gate meanwhile.
    await after.kill();
    // What is asked before its end is noticed may break with it.
    let kind = '';
    for (let tries = 0; tries < 10 && kind !== 'continue'; tries++) kind = (await askInput(bridge)).kind;
    expect(kind).toBe('continue');
    expect(before.asked.length).toBeGreaterThan(0);
  });

  it('one that still starts a required plugin brings no port that only it has', async () => {
    const serving = await hostWith({ 'agent/input': [{}] });
    const starting = await hostWith(
      { 'agent/input': [{}], 'tools/pre-execute': [{}] },
      { ready: false, reason: 'starting', missingRequired: [{ plugin: 'new', reason: 'starting', matchJson: '' }] },
    );
    const bridge = await readyWith([serving, starting]);
    await until(() => bridge.differences().length > 0, 'both known');
    expect(bridge.ports().map(({ port }) => port)).toEqual(['agent/input']);
    expect((await askTool(bridge)).kind).toBe('proceed');
    starting.show(snapshotWith({ 'agent/input': [{}], 'tools/pre-execute': [{}] }));
    await until(() => bridge.ports().length === 2, 'it is up');
    expect((await askTool(bridge)).kind).toBe('proceed');
    expect([serving.asked.length, starting.asked.length]).toEqual([0, 1]);
  });

  it('a plugin that is new only for others makes no difference', async () => {
    const before = await hostWith({ 'agent/input': [{ plugin: 'old' }] });
    const after = await hostWith({
      'agent/input': [{ plugin: 'old' }, { plugin: 'new', matchJson: '{"tenants":["else"]}' }],
    });
    const bridge = await readyWith([before, after]);
    await until(() => bridge.differences().length > 0, 'both known');
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    for (const host of [before, after]) {
      host.onDispatch = async (request) => {
        await held;
        return answerTo(request);
      };
    }
    const calls = Array.from({ length: 4 }, () => askInput(bridge));
    await until(() => before.asked.length === 2 && after.asked.length === 2, 'shared evenly');
    free();
    await Promise.all(calls);
  });

  it('one below the epoch refuses and another is taken', async () => {
    const behind = await hostWith({ 'agent/input': [{}] });
    const ahead = await hostWith({ 'agent/input': [{}] });
    for (const host of [behind, ahead]) {
      host.onDispatch = (request) => {
        if (host === behind) throw failing(9, 'epoch');
        return answerTo(request);
      };
    }
    const bridge = await readyWith([behind, ahead]);
    await Promise.all([askInput(bridge), askInput(bridge), askInput(bridge)]).then((all) =>
      expect(all.every(({ kind }) => kind === 'continue')).toBe(true),
    );
    expect(ahead.asked).toHaveLength(3);
    ahead.show(snapshotWith({ 'agent/input': [{}] }, { chainEpoch: 5 }));
    await until(() => bridge.epoch() === 5, 'epoch');
    const before = behind.asked.length;
    await askInput(bridge);
    expect(ahead.asked[3]?.minChainEpoch).toBe(5);
    expect(behind.asked).toHaveLength(before);
  });

  it('an answer under an older epoch is refused', async () => {
    const host = await hostWith({ 'agent/input': [{}] }, { chainEpoch: 4 });
    host.onDispatch = (request) => answerTo(request, { payload: json({ content: 'late' }) }, { chainEpoch: 3 });
    const call = opened();
    await expect(askInput(await readyWith([host]), call)).resolves.toMatchObject({ kind: 'could_not_ask' });
    expect(outcomes(call)).toEqual(['host:not ready']);
  });

  it('an undelivered call is sent once more, to another one', async () => {
    const gone = await hostWith({ 'agent/input': [{}] });
    const stays = await hostWith({ 'agent/input': [{}] });
    gone.onDispatch = () => {
      throw failing(14, 'going down');
    };
    const bridge = await readyWith([gone, stays]);
    const all = await Promise.all([askInput(bridge), askInput(bridge)]);
    expect(all).toEqual([{ kind: 'continue' }, { kind: 'continue' }]);
    expect(stays.asked).toHaveLength(2);
  });

  it('a call that reached nobody, as the last one goes, is asked at the one that comes', async () => {
    const gone = await hostWith({ 'agent/input': [{}] });
    const { port } = gone;
    const bridge = await readyWith([gone], { gateTimeoutMs: 20_000 });
    gone.kill();
    const asking = askInput(bridge);
    const next = await started(new GateHost(snapshotWith({ 'agent/input': [{}] })), port);
    await expect(asking).resolves.toEqual({ kind: 'continue' });
    expect(next.asked).toHaveLength(1);
  });

  it('names are resolved again: new addresses join, gone ones leave', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    let ips: readonly string[] = [];
    const bridge = connected({
      urls: [`hosts.test:${host.port}`],
      resolve: async () => ips,
      resolveEveryMs: 20,
    });
    await expect(askInput(bridge)).resolves.toMatchObject({ kind: 'could_not_ask' });
    ips = ['127.0.0.1'];
    await until(() => bridge.readiness().ready, 'joined');
    await expect(askInput(bridge)).resolves.toEqual({ kind: 'continue' });
    ips = ['127.0.0.2'];
    await until(() => host.watching === 0, 'left');
  });

  it('a gate that reached nobody is asked when the host is back, within its budget', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    const { port } = host;
    const bridge = await readyWith([host], { gateTimeoutMs: 20_000 });
    host.kill();
    const call = opened();
    let over = false;
    const asked = askInput(bridge, call).finally(() => {
      over = true;
    });
    await new Promise(setImmediate);
    expect(over).toBe(false);
    await host.start(port);
    await expect(asked).resolves.toEqual({ kind: 'continue' });
    expect(outcomes(call)).toEqual([]);
    expect(host.asked).toHaveLength(1);
  });

  it('a gate that waits for a host whose address is given up is asked at another that comes to serve it', async () => {
    const host = await hostWith({ 'agent/input': [{}] });
    const other = await hostWith({ 'tools/pre-execute': [{}] });
    let ips: readonly string[] = ['127.0.0.1'];
    let resolved = 0;
    const bridge = connected({
      urls: [`hosts.test:${host.port}`, other.url],
      resolve: async () => {
        resolved += 1;
        return ips;
      },
      resolveEveryMs: 20,
      gateTimeoutMs: 20_000,
    });
    await until(() => bridge.ports().length === 2, 'both');
    host.kill();
    const call = opened();
    const asked = askInput(bridge, call);
    ips = ['127.0.0.2'];
    await until(() => bridge.ports().length === 1, 'given up');
    // Long enough for the gate to find that nobody serves it.
    const before = resolved;
    await until(() => resolved > before + 5, 'resolved again');
    other.show(snapshotWith({ 'agent/input': [{}] }));
    await expect(asked).resolves.toEqual({ kind: 'continue' });
    expect(outcomes(call)).toEqual([]);
    expect(other.asked).toHaveLength(1);
  });
});
