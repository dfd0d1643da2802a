import { deadlineSlackMs, gate } from '@codedock/proto';
import { credentials, Metadata, status } from '@grpc/grpc-js';
import { answerTo, failing, GateHost, until } from '../../test-support/gate-host.js';
import { DispatchStream } from './dispatch-stream.js';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

async function hostOf(options?: { streams: boolean }): Promise<GateHost> {
  const host = await new GateHost(undefined, options).start();
  closing.push(() => host.kill());
  return host;
}

function streamTo(host: GateHost, traced?: () => boolean): DispatchStream {
  const client = new gate.GateServiceClient(host.url, credentials.createInsecure());
  const stream = new DispatchStream({ client, metadata: new Metadata(), target: host.url, traced });
  closing.push(() => {
    stream.close();
    client.close();
  });
  return stream;
}

const request = (name: string, more: Partial<gate.GateRequest> = {}): gate.GateRequest =>
  gate.GateRequest.fromPartial({ port: 'agent/input', envelope: { chainId: name }, budgetMs: 2_000, ...more });
const never = () => new AbortController().signal;
const hanging = () => new Promise<never>(() => undefined);
const ended = (result: Awaited<ReturnType<DispatchStream['ask']>>) =>
  result.kind === 'answered' ? result.value.envelope?.chainId : status[result.error.code];

it('asks everything over one stream and tells answers apart, in whatever order they come', async () => {
  const host = await hostOf();
  const first: { answer?: () => void } = {};
  host.onDispatch = (asked) =>
    asked.envelope?.chainId === 'first'
      ? new Promise((resolve) => {
          first.answer = () => resolve(answerTo(asked));
        })
      : answerTo(asked);
  const stream = streamTo(host);
  const one = stream.ask(request('first'), never());
  await expect(stream.ask(request('second'), never()).then(ended)).resolves.toBe('second');
  first.answer?.();
  await expect(one.then(ended)).resolves.toBe('first');
  expect(host.transport).toEqual({ alone: 0, streams: 1 });
});

it('ends one call as its status says, and no other', async () => {
  const host = await hostOf();
  host.onDispatch = (asked) => {
    if (asked.envelope?.chainId === 'behind') throw failing(status.FAILED_PRECONDITION, 'epoch');
    return answerTo(asked);
  };
  const stream = streamTo(host);
  const results = await Promise.all(['behind', 'fine'].map((name) => stream.ask(request(name), never()).then(ended)));
  expect(results).toEqual(['FAILED_PRECONDITION', 'fine']);
});

it('cancels at the host what its caller gives up', async () => {
  const host = await hostOf();
  host.onDispatch = hanging;
  const stream = streamTo(host);
  const caller = new AbortController();
  const asked = stream.ask(request('x'), caller.signal);
  await until(() => host.asked.length === 1, 'asked');
  caller.abort();
  await expect(asked.then(ended)).resolves.toBe('CANCELLED');
  await until(() => host.cancelled === 1, 'cancelled');
  host.onDispatch = (again) => answerTo(again);
  await expect(stream.ask(request('next'), never()).then(ended)).resolves.toBe('next');
});

it('waits no longer than the budget and a slack', async () => {
  const host = await hostOf();
  host.onDispatch = hanging;
  const begin = performance.now();
  const asked = await streamTo(host).ask(request('x', { budgetMs: 50 }), never());
  expect(ended(asked)).toBe('DEADLINE_EXCEEDED');
  expect(performance.now() - begin).toBeGreaterThanOrEqual(50 + deadlineSlackMs - 2);
  await until(() => host.cancelled === 1, 'cancelled');
});

it('ends open calls with a host that dies, and opens another stream for the next', async () => {
  const host = await hostOf();
  host.onDispatch = hanging;
  const stream = streamTo(host);
  const open = [stream.ask(request('a'), never()), stream.ask(request('b'), never())];
  await until(() => host.asked.length === 2, 'asked');
  const { port } = host;
  host.kill();
  expect((await Promise.all(open)).map(({ kind }) => kind)).toEqual(['failed', 'failed']);
  host.onDispatch = (asked) => answerTo(asked);
  await host.start(port);
  let last = '';
  await until(() => {
    if (last !== 'back') void stream.ask(request('back'), never()).then((result) => (last = String(ended(result))));
    return last === 'back';
  }, 'answered again');
});

it('asks a host that has no streams call by call, the calls that found out included', async () => {
  const host = await hostOf({ streams: false });
  const stream = streamTo(host);
  const results = await Promise.all(['a', 'b'].map((name) => stream.ask(request(name), never()).then(ended)));
  expect(results).toEqual(['a', 'b']);
  await expect(stream.ask(request('c'), never()).then(ended)).resolves.toBe('c');
  expect(host.transport).toEqual({ alone: 3, streams: 0 });
});

it('sends what is large, or part of a trace, as calls of their own', async () => {
  const host = await hostOf();
  let traced = true;
  const stream = streamTo(host, () => traced);
  await stream.ask(request('in a trace'), never());
  traced = false;
  await stream.ask(request('large', { envelope: { payload: Buffer.alloc(300_000) } as never }), never());
  await stream.ask(request('small'), never());
  expect(host.transport).toEqual({ alone: 2, streams: 1 });
});

it('ends its calls when it is closed', async () => {
  const host = await hostOf();
  host.onDispatch = hanging;
  const stream = streamTo(host);
  const asked = stream.ask(request('x'), never());
  await until(() => host.asked.length === 1, 'asked');
  stream.close();
  await expect(asked.then(ended)).resolves.toBe('CANCELLED');
  await until(() => host.cancelled === 1, 'cancelled');
});
