import type { gate } from '@codedock/proto';
import type { ServiceError } from '@grpc/grpc-js';
import type { Replica } from './replica.js';
import type { ReplicaSet } from './replica-set.js';
import { callOnce, type UnaryResult } from './unary.js';

/** One replica's answer to an administrator, or why it gave none. */
export type ReplicaAnswer<T> =
  | { readonly replica: string; readonly ok: true; readonly value: T }
  | { readonly replica: string; readonly ok: false; readonly code: number; readonly message: string };

/** Who follows a recording. */
export interface RecordingListener {
  /** One question with what became of it, as JSON. */
  question(json: string): void;
  /** A replica records no more; the error is absent where it ended in good order. Called once per replica. */
  ended(replica: string, error?: { readonly code: number; readonly message: string }): void;
}

/** Administration of plugins, on all replicas at once; never rejects. */
export interface PluginAdmin {
  /** In chain order, refused folders last. */
  list(): Promise<readonly ReplicaAnswer<readonly gate.PluginStatus[]>[]>;
  /** Until `start` or a restart of the host. gRPC code 5 (NOT_FOUND) for an unknown name. */
  stop(name: string): Promise<readonly ReplicaAnswer<gate.PluginStatus>[]>;
  start(name: string): Promise<readonly ReplicaAnswer<gate.PluginStatus>[]>;
  /** The old generation stays when the new one does not come up. */
  reload(name: string): Promise<readonly ReplicaAnswer<gate.PluginStatus>[]>;
  /**
   * What a plugin is asked on any replica from now on in the name of a tenant, until the function it answers is called.
   * Secrets are taken out.
   */
  record(name: string, tenant: string, listener: RecordingListener): () => void;
  /** The hosts re-read epoch and disabled set now. */
  refresh(): Promise<readonly ReplicaAnswer<gate.RefreshResult>[]>;
}

const READ_MS = 2_000;
const CHANGE_MS = 30_000;

/** The administration of the replicas of a set. */
export function pluginAdmin(replicas: ReplicaSet): PluginAdmin {
  const everywhere = <T>(call: (replica: Replica) => Promise<UnaryResult<T>>): Promise<readonly ReplicaAnswer<T>[]> =>
    Promise.all(
      replicas.all.map(async (replica) => {
        const { target } = replica.address;
        const result = await call(replica);
        return result.kind === 'answered'
          ? { replica: target, ok: true as const, value: result.value }
          : failed(target, result.error);
      }),
    );
  const named = (method: 'stopPlugin' | 'startPlugin' | 'reloadPlugin', name: string) =>
    everywhere(({ client, metadata, address }) =>
      callOnce<gate.PluginName, gate.PluginStatus>(
        client[method].bind(client),
        { name },
        metadata,
        CHANGE_MS,
        undefined,
        address.target,
      ),
    );
  return {
    async list() {
      const answers = await everywhere(({ client, metadata, address }) =>
        callOnce<gate.ListPluginsRequest, gate.PluginList>(
          client.listPlugins.bind(client),
          {},
          metadata,
          READ_MS,
          undefined,
          address.target,
        ),
      );
      return answers.map((answer) => (answer.ok ? { ...answer, value: answer.value.plugins } : answer));
    },
    stop: (name) => named('stopPlugin', name),
    start: (name) => named('startPlugin', name),
    reload: (name) => named('reloadPlugin', name),
    record(name, tenant, listener) {
      const streams = replicas.all.map((replica) => recordOn(replica, { plugin: name, tenant }, listener));
      return () => {
        for (const stop of streams) stop();
      };
    },
    async refresh() {
      const answers = await everywhere(({ client, metadata, address }) =>
        callOnce<gate.RefreshRequest, gate.RefreshResult>(
          client.refresh.bind(client),
          {},
          metadata,
          READ_MS,
          undefined,
          address.target,
        ),
      );
      for (const answer of answers) if (answer.ok) replicas.sawEpoch(answer.value.chainEpoch);
      return answers;
    },
  };
}

function recordOn(
  { client, metadata, address }: Replica,
  request: gate.RecordRequest,
  listener: RecordingListener,
): () => void {
  const stream = client.record(request, metadata);
  let over = false;
  const end = (error?: ServiceError) => {
    if (over) return;
    over = true;
    listener.ended(address.target, error === undefined ? undefined : { code: error.code, message: error.details });
  };
  stream.on('data', ({ json }: gate.RecordedQuestion) => {
    if (!over) listener.question(json);
  });
  stream.on('error', end);
  stream.on('end', () => end());
  return () => {
    over = true;
    stream.cancel();
  };
}

function failed(replica: string, error: ServiceError): ReplicaAnswer<never> {
  return { replica, ok: false, code: error.code, message: error.details };
}
