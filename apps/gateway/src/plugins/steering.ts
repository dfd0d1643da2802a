import { AppError, type ErrorCode } from '@codedock/domain';
import type { PluginHosts } from '@codedock/plugin-bridge';
import { status } from '@grpc/grpc-js';

/** What an administrator does to the processes of a plugin; nothing of it is kept across restarts of their hosts. */
export type Steering = 'stop' | 'start' | 'reload';

/** How steering can fail on every replica. */
export const STEERING: readonly ErrorCode[] = ['plugin_not_found', 'plugin_refused', 'plugin_unavailable'];

/** One plugin-host's part; `code` is the gRPC status where it has not done it. */
export interface SteeredReplica {
  readonly replica: string;
  readonly done: boolean;
  readonly state?: string;
  readonly generation?: number;
  readonly reason?: string;
  readonly code?: number;
}

type Answer = Awaited<ReturnType<PluginHosts['plugins'][Steering]>>[number];

/** A replica's answer as it is shown. */
export function steeredReplica(answer: Answer): SteeredReplica {
  const { replica } = answer;
  if (!answer.ok) return { replica, done: false, reason: answer.message, code: answer.code };
  const { state, generation, reason } = answer.value;
  return { replica, done: true, state, generation, ...(reason === '' ? {} : { reason }) };
}

/** What to tell when no replica has done it. */
export function steeringFailure(plugin: string, replicas: readonly SteeredReplica[]): AppError {
  const [first] = replicas;
  if (first === undefined)
    return new AppError('plugin_unavailable', 'No plugin-host is connected; see PLUGIN_HOST_URL and its logs.');
  if (replicas.every(({ code }) => code === status.NOT_FOUND))
    return new AppError('plugin_not_found', `No plugin-host knows the plugin ${plugin}.`);
  const refused = replicas.find(({ code }) => code === status.FAILED_PRECONDITION);
  if (refused !== undefined) return new AppError('plugin_refused', refused.reason ?? 'The plugin-host has refused it.');
  return new AppError(
    'plugin_unavailable',
    `The plugin-host ${first.replica} did not do it: ${first.reason ?? 'no reason given'}`,
  );
}
