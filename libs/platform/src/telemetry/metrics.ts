import { type Attributes, metrics as api, type Meter, type MeterProvider, type Span } from '@opentelemetry/api';
import { boundedLabels } from './bounded-labels.js';
import { BucketExemplars } from './bucket-exemplars.js';

const METER = 'codedock';
// Seconds. Gates answer in milliseconds and have a budget of 2 s, so the limits are close around both.
const GATE_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 1.9, 2, 2.5, 5, 10, 30];
const LATENCY_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const LONG_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400];

/** Durations of something; given in milliseconds, exported in seconds. At /metrics dots are underscores. */
export interface DurationMetric<A extends Attributes> {
  /** `span` is the one that was measured, or the one it was measured in: sampled, it becomes its bucket's exemplar. */
  record(milliseconds: number, attributes: A, span?: Span): void;
}

/** How often something happened. */
export interface CountMetric<A extends Attributes> {
  add(count: number, attributes: A): void;
}

/** How much there is now. */
export interface LevelMetric<A extends Attributes> {
  set(value: number, attributes: A): void;
}

const exemplars: BucketExemplars[] = [];

/** Every exemplar of every histogram, as OpenMetrics writes them, by the sample each belongs to. */
export function exemplarsBySample(): ReadonlyMap<string, string> {
  const bySample = new Map<string, string>();
  for (const each of exemplars) each.write(bySample);
  return bySample;
}

/** Attributes of a metric without any. */
export type NoAttributes = Record<string, never>;

/**
 * The metrics of CodeDock. They cost next to nothing and do nothing until `startTelemetry` has run. Attribute values
 * come from small sets (gate names, codes, states, plugin names), never ids, and are bounded all the same.
 */
export const metrics = {
  /** A whole gate with all its plugins, from the caller's side. */
  gateDuration: duration<{ gate: string; outcome: string }>(
    'codedock.gate.duration',
    'Time of a whole gate.',
    GATE_SECONDS,
  ),
  /** One question to one plugin. */
  pluginDuration: duration<{ plugin: string; port: string; outcome: string }>(
    'codedock.plugin.duration',
    'Time of one question to one plugin.',
    GATE_SECONDS,
  ),
  gateDecisions: count<{ gate: string; decision: string }>('codedock.gate.decisions', 'Decisions of gates.'),
  gateFailures: count<{ gate: string; code: string }>(
    'codedock.gate.failures',
    'Gates or plugins that could not be asked or answered wrongly.',
  ),
  failClosedBlocks: count<{ gate: string }>(
    'codedock.gate.fail_closed',
    'Acts stopped because a gate could not be asked.',
  ),
  pluginRestarts: count<{ plugin: string }>('codedock.plugin.restarts', 'Restarts of plugins after they died.'),
  pluginReady: level<{ plugin: string }>(
    'codedock.plugin.ready',
    '1 while the plugin answers, 0 while it does not, -1 while an administrator has taken it out.',
  ),
  pluginHosts: level<{ state: 'known' | 'reachable' }>(
    'codedock.plugin_hosts',
    'Plugin-hosts as this process sees them: those whose addresses it knows, and those among them it reaches.',
  ),
  noticesDropped: count<{ event: string }>(
    'codedock.plugin.notices.dropped',
    'Ledger events that no plugin-host was told of: too many waited, or none took them.',
  ),
  pluginDeliveries: count<{ plugin: string; outcome: string }>(
    'codedock.plugin.deliveries',
    'Events given to plugins with durable delivery: delivered, or failed and to be tried again.',
  ),
  pluginDeliveryLag: level<{ plugin: string }>(
    'codedock.plugin.delivery_lag',
    'Age of the oldest event that a plugin with durable delivery has not been given.',
    's',
  ),
  runsQueued: level<NoAttributes>('codedock.runs.queued', 'Runs that wait for a runner.'),
  runsPending: level<NoAttributes>('codedock.runs.pending', 'Runs that wait for their session or tenant.'),
  queueAge: level<NoAttributes>('codedock.queue.age', 'Age of the oldest queued run.', 's'),
  leasesExpired: level<NoAttributes>('codedock.leases.expired', 'Running runs whose lease has expired.'),
  leaseLosses: count<NoAttributes>('codedock.leases.lost', 'Leases that a runner lost while executing.'),
  queueWait: duration<NoAttributes>('codedock.queue.wait', 'Time from queued to leased.', LONG_SECONDS),
  runDuration: duration<{ status: string }>(
    'codedock.run.duration',
    'Time a run was executed until its end; waiting does not count.',
    LONG_SECONDS,
  ),
  runsEnded: count<{ status: string }>('codedock.runs.ended', 'Runs that have ended, by the state they ended in.'),
  runsExecuting: upDown<NoAttributes>('codedock.runner.runs', 'Runs that this runner executes now.'),
  modelDuration: duration<{ provider: string; outcome: string }>(
    'codedock.model.duration',
    'Time of one model call.',
    LONG_SECONDS,
  ),
  toolDuration: duration<{ tool: string; outcome: string }>(
    'codedock.tool.duration',
    'Time of one tool call.',
    LONG_SECONDS,
  ),
  pruned: count<{ kind: string }>('codedock.retention.pruned', 'Rows deleted because their time was over.'),
  sseClients: upDown<NoAttributes>('codedock.sse.clients', 'Open event streams.'),
  eventAppend: duration<NoAttributes>(
    'codedock.event.append.duration',
    'Time of one append to the ledger.',
    LATENCY_SECONDS,
  ),
  spansDropped: count<{ reason: string }>(
    'codedock.telemetry.spans.dropped',
    'Spans that no collector got: the queue was full, or the collector did not take them.',
  ),
} as const;

/**
 * Instruments made before the SDK runs do nothing for good, and these are made when the module loads: each use
 * therefore takes the instrument of the provider that is registered then.
 */
function perProvider<I>(make: (meter: Meter) => I): () => I {
  let provider: MeterProvider | undefined;
  let instrument: I | undefined;
  return () => {
    const current = api.getMeterProvider();
    if (instrument === undefined || current !== provider) {
      provider = current;
      instrument = make(current.getMeter(METER));
    }
    return instrument;
  };
}

function duration<A extends Attributes>(
  name: string,
  description: string,
  boundaries: readonly number[],
): DurationMetric<A> {
  const histogram = perProvider((meter) =>
    meter.createHistogram(name, {
      description,
      unit: 's',
      advice: { explicitBucketBoundaries: [...boundaries] },
    }),
  );
  const bounded = boundedLabels<A>();
  const kept = new BucketExemplars(name, boundaries);
  exemplars.push(kept);
  return {
    record(milliseconds, attributes, span) {
      const seconds = milliseconds / 1_000;
      const labels = bounded(attributes);
      histogram().record(seconds, labels);
      kept.keep(seconds, labels, span);
    },
  };
}

function count<A extends Attributes>(name: string, description: string): CountMetric<A> {
  const counter = perProvider((meter) => meter.createCounter(name, { description }));
  const bounded = boundedLabels<A>();
  return { add: (count, attributes) => counter().add(count, bounded(attributes)) };
}

function upDown<A extends Attributes>(name: string, description: string): CountMetric<A> {
  const counter = perProvider((meter) => meter.createUpDownCounter(name, { description }));
  const bounded = boundedLabels<A>();
  return { add: (count, attributes) => counter().add(count, bounded(attributes)) };
}

function level<A extends Attributes>(name: string, description: string, unit = ''): LevelMetric<A> {
  const gauge = perProvider((meter) => meter.createGauge(name, { description, unit }));
  const bounded = boundedLabels<A>();
  return { set: (value, attributes) => gauge().record(value, bounded(attributes)) };
}
