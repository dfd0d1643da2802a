import { plugin } from '@codedock/proto';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { readValue } from '../json.js';
import { addTrace } from '../telemetry/trace-context.js';
import { methodOf } from '../tools/method-of.js';
import type { Host, MemoryScope, SessionAddress } from './host.js';
import { HostCallError } from './host-call-error.js';

const callTimeoutMs = 10_000;
const completeTimeoutMs = 35_000;

type Service = typeof plugin.HostService;
type RequestOf<M extends keyof Service> = Parameters<Service[M]['requestSerialize']>[0];
type ReplyOf<M extends keyof Service> = ReturnType<Service[M]['responseDeserialize']>;

/** Where the host's service is reached; rejects when the host never announced it. */
export type DialHost = () => Promise<plugin.HostClient>;

/** The host over its brokered connection. */
export function grpcHost(dial: DialHost): Host {
  const call = async <M extends keyof Service>(
    method: M,
    of: Partial<SessionAddress>,
    request: RequestOf<M>,
    timeoutMs = callTimeoutMs,
  ): Promise<ReplyOf<M>> => {
    const name = `${method[0]?.toUpperCase()}${method.slice(1)}`;
    const { path, requestSerialize, responseDeserialize } = plugin.HostService[method];
    const client = await dial().catch((error: Error) => {
      throw new HostCallError(name, 'UNAVAILABLE', error.message);
    });
    return new Promise<ReplyOf<M>>((resolve, reject) => {
      if (of.signal?.aborted) return reject(new HostCallError(name, 'CANCELLED', 'the question it belongs to is over'));
      const abort = () => pending.cancel();
      const pending = client.makeUnaryRequest(
        path,
        requestSerialize as (value: RequestOf<M>) => Buffer,
        responseDeserialize as (bytes: Buffer) => ReplyOf<M>,
        request,
        addTrace(new Metadata()),
        { deadline: Date.now() + timeoutMs },
        (error, reply) => {
          of.signal?.removeEventListener('abort', abort);
          if (error === null && reply !== undefined) resolve(reply);
          else reject(new HostCallError(name, codeName(error), describe(error, timeoutMs)));
        },
      );
      of.signal?.addEventListener('abort', abort, { once: true });
    });
  };

  return {
    async registerTool(tool) {
      await call('registerMethod', {}, methodOf(tool));
    },
    async emit(of, event, payload = {}) {
      const envelope = {
        ...plugin.Envelope.create(addressed(of)),
        type: event,
        payload: Buffer.from(JSON.stringify(payload)),
      };
      await call('emit', of, envelope);
    },
    async appendNotice(of, text) {
      await call('appendNotice', of, { ...addressed(of), text });
    },
    async complete(of, { prompt, text }) {
      return (await call('complete', of, { ...addressed(of), prompt, text }, completeTimeoutMs)).text;
    },
    memory: {
      async get(of, name, scope = 'session') {
        const value = await orMissing(call('memoryGet', of, memoryKey(of, name, scope)));
        return value?.text;
      },
      async upsert(of, name, text, scope = 'session') {
        await call('memoryUpsert', of, { key: memoryKey(of, name, scope), text });
      },
    },
    tools: {
      async active(of) {
        return (await call('getActiveTools', of, addressed(of))).names;
      },
      async setActive(of, names) {
        await call('setActiveTools', of, { ...addressed(of), names: [...names] });
      },
    },
    settings: {
      async get(of, key) {
        const found = await orMissing(call('getSetting', of, { ...addressed(of), key }));
        return found === undefined || found.value.length === 0
          ? undefined
          : readValue(found.value, `the setting ${key}`);
      },
      async set(of, key, value) {
        await call('setSetting', of, { ...addressed(of), key, value: Buffer.from(JSON.stringify(value)) });
      },
    },
    secrets: {
      async get(of, key) {
        return (await orMissing(call('getSecret', of, { ...addressed(of), key })))?.value;
      },
      async set(of, key, value) {
        await call('setSecret', of, { ...addressed(of), key, value });
      },
    },
    async systemPrompt(of) {
      return (await call('getSystemPrompt', of, addressed(of))).text;
    },
    async models(of) {
      return (await call('listModels', of, addressed(of))).models;
    },
  };
}

function addressed(of: SessionAddress): { sessionId: string; runId: string } {
  return { sessionId: of.sessionId, runId: of.runId ?? '' };
}

function memoryKey(of: SessionAddress, name: string, scope: MemoryScope): plugin.MemoryKey {
  return { sessionId: of.sessionId, scope, name };
}

async function orMissing<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (error) {
    if (error instanceof HostCallError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function codeName(error: ServiceError | null): string {
  return error === null ? 'INTERNAL' : (status[error.code] ?? String(error.code));
}

function describe(error: ServiceError | null, timeoutMs: number): string {
  if (error === null) return 'the host answered nothing';
  if (error.code === status.UNIMPLEMENTED) return 'this host does not offer it';
  // The host's own time-outs say what was cut; only those of this side come without a text of its own.
  if (error.code === status.DEADLINE_EXCEEDED && /^Deadline exceeded/i.test(error.details))
    return `the host did not answer within ${timeoutMs} ms`;
  if (error.code === status.CANCELLED) return 'cancelled, because the question it belongs to is over';
  return error.details || error.message;
}
