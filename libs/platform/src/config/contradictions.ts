import type { ConfigProblem } from './config-error.js';
import type { Secret } from './secret.js';
import { type Address, isLoopback } from './value-types.js';

/** The values that can contradict each other; only those that a program reads are there. */
export interface ComparedValues {
  readonly pluginRpcTimeoutMs?: number;
  readonly pluginGateTimeoutMs?: number;
  readonly leaseTtlMs?: number;
  readonly leaseHeartbeatMs?: number;
  readonly runnerDrainTimeoutMs?: number;
  readonly gracePeriodMs?: number | undefined;
  readonly pluginHostListen?: Address;
  readonly hostApiListen?: Address;
  readonly pluginHostUrls?: readonly Address[] | undefined;
  readonly hostApiUrl?: Address | undefined;
  readonly internalToken?: Secret | undefined;
  readonly tlsCaFile?: string | undefined;
  readonly tlsCertFile?: string | undefined;
  readonly tlsKeyFile?: string | undefined;
}

/** Pairs of values that are right alone and wrong together. */
export function findContradictions(values: ComparedValues): ConfigProblem[] {
  return [...timeouts(values), ...tlsFiles(values), ...plaintext(values), ...unknownCallers(values)];
}

function* timeouts(values: ComparedValues): Generator<ConfigProblem> {
  const { pluginRpcTimeoutMs, pluginGateTimeoutMs, leaseTtlMs, leaseHeartbeatMs } = values;
  if (
    pluginRpcTimeoutMs !== undefined &&
    pluginGateTimeoutMs !== undefined &&
    pluginRpcTimeoutMs > pluginGateTimeoutMs
  ) {
    yield {
      variable: 'PLUGIN_RPC_TIMEOUT',
      message:
        `PLUGIN_RPC_TIMEOUT (${pluginRpcTimeoutMs}ms) is longer than PLUGIN_GATE_TIMEOUT (${pluginGateTimeoutMs}ms), ` +
        'which covers all plugins of a gate. Lower the first or raise the second.',
    };
  }
  if (leaseTtlMs !== undefined && leaseHeartbeatMs !== undefined && leaseHeartbeatMs * 2 > leaseTtlMs) {
    yield {
      variable: 'CODEDOCK_LEASE_HEARTBEAT',
      message:
        `CODEDOCK_LEASE_HEARTBEAT (${leaseHeartbeatMs}ms) is more than half of CODEDOCK_LEASE_TTL (${leaseTtlMs}ms): ` +
        'one late heartbeat would lose every run. Lower the first or raise the second.',
    };
  }
  const { runnerDrainTimeoutMs, gracePeriodMs } = values;
  if (runnerDrainTimeoutMs !== undefined && gracePeriodMs !== undefined && runnerDrainTimeoutMs >= gracePeriodMs) {
    yield {
      variable: 'RUNNER_DRAIN_TIMEOUT',
      message:
        `RUNNER_DRAIN_TIMEOUT (${runnerDrainTimeoutMs}ms) is not shorter than CODEDOCK_GRACE_PERIOD ` +
        `(${gracePeriodMs}ms): the runner would be killed while draining. Lower the first or raise the second.`,
    };
  }
}

function* tlsFiles(values: ComparedValues): Generator<ConfigProblem> {
  const files = {
    CODEDOCK_TLS_CA_FILE: values.tlsCaFile,
    CODEDOCK_TLS_CERT_FILE: values.tlsCertFile,
    CODEDOCK_TLS_KEY_FILE: values.tlsKeyFile,
  };
  const missing = Object.entries(files).filter(([, file]) => file === undefined);
  if (missing.length > 0 && missing.length < 3) {
    for (const [variable] of missing) {
      yield {
        variable,
        message: `${variable} is not set, but the other CODEDOCK_TLS_* files are. Set all three or none.`,
      };
    }
  }
}

function* plaintext(values: ComparedValues): Generator<ConfigProblem> {
  if (values.tlsCertFile !== undefined) {
    return;
  }
  const remedy =
    'Set CODEDOCK_TLS_CA_FILE, CODEDOCK_TLS_CERT_FILE and CODEDOCK_TLS_KEY_FILE, or use a loopback address.';
  const ends: [string, readonly Address[]][] = [
    ['PLUGIN_HOST_LISTEN', values.pluginHostListen ? [values.pluginHostListen] : []],
    ['CODEDOCK_HOST_API_LISTEN', values.hostApiListen ? [values.hostApiListen] : []],
    ['PLUGIN_HOST_URL', values.pluginHostUrls ?? []],
    ['CODEDOCK_HOST_API_URL', values.hostApiUrl ? [values.hostApiUrl] : []],
  ];
  for (const [variable, addresses] of ends) {
    const open = addresses.find(({ host }) => !isLoopback(host));
    if (open) {
      yield {
        variable,
        message: `${variable} is "${open.host}:${open.port}": gRPC between services outside loopback needs TLS. ${remedy}`,
      };
    }
  }
}

/** A plugin-host lets nobody in whom it cannot know: without token and TLS every gate would be refused. */
function* unknownCallers(values: ComparedValues): Generator<ConfigProblem> {
  const { pluginHostUrls = [], tlsCertFile, internalToken } = values;
  if (pluginHostUrls.length === 0 || tlsCertFile !== undefined || internalToken !== undefined) {
    return;
  }
  yield {
    variable: 'CODEDOCK_INTERNAL_TOKEN',
    message:
      'CODEDOCK_INTERNAL_TOKEN is not set, but PLUGIN_HOST_URL is. ' +
      'Give the same random text to all services, or set the CODEDOCK_TLS_* files.',
  };
}
