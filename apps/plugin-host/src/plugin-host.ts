import { randomUUID } from 'node:crypto';
import { AppError } from '@codedock/domain';
import { ATTRIBUTES, type Logger, withSpan } from '@codedock/platform';
import { type gate, host, isPort, type Port, plugin } from '@codedock/proto';
import { credentials, status } from '@grpc/grpc-js';
import type { Observable } from 'rxjs';
import type { PluginHostConfig } from './config.js';
import { DurableDelivery } from './delivery/durable-delivery.js';
import { DesiredState } from './desired/desired-state.js';
import { scanRoots } from './discovery/scanner.js';
import { runGateChain } from './dispatch/gate-chain.js';
import { matchSubjectOf } from './dispatch/match-subject.js';
import { observeOutcomes } from './dispatch/observe-outcomes.js';
import { failure } from './grpc/status.js';
import { absentHostApi, connectHostApi, type HostApiConnection } from './host-calls/host-api-client.js';
import { Guardian } from './process/guardian.js';
import { sweepSocketDirectories } from './process/socket-directory.js';
import { sweepOrphans } from './process/sweep-orphans.js';
import { Recorder } from './recording/recorder.js';
import { PluginSet } from './session/plugin-set.js';
import { pluginStatus, snapshotOf } from './watch/snapshot.js';
import { SnapshotFeed } from './watch/snapshot-feed.js';

const noDisabled: ReadonlySet<string> = new Set();
/** Milliseconds to give back, at the end, what a plugin has not taken. */
const lastSettleMs = 1_000;

/** Everything a running plugin-host is, without a transport: what its gRPC service offers is a method here. */
export class PluginHost {
  readonly instanceId = randomUUID();
  readonly feed: SnapshotFeed;
  private readonly guardian: Guardian;
  private readonly api: HostApiConnection;
  private readonly set: PluginSet;
  private readonly desired: DesiredState;
  private readonly delivery: DurableDelivery;
  private readonly recorder = new Recorder();
  private draining = false;
  private inFlight = 0;
  private onIdle: (() => void) | undefined;

  constructor(
    private readonly config: PluginHostConfig,
    private readonly log: Logger,
    environment: Readonly<Record<string, string | undefined>>,
  ) {
    this.guardian = new Guardian(log);
    this.api = hostApiOf(config);
    this.set = new PluginSet({
      guardian: this.guardian,
      log,
      startTimeoutMs: config.startTimeoutMs,
      hostEnvironment: environment,
      api: this.api,
      limits: { rpcTimeoutMs: config.rpcTimeoutMs, gateTimeoutMs: config.gateTimeoutMs },
      recorder: this.recorder,
      scan: () => scanRoots(config.pluginRoots),
      onRecord: (name, kind, message) => this.record(name, kind, message),
    });
    this.desired = new DesiredState(this.api, this.instanceId, log, async ({ disabled }) => {
      this.feed.changed();
      void this.set.applyDisabled(disabled);
    });
    this.feed = new SnapshotFeed(() => this.snapshot());
    this.delivery = new DurableDelivery({
      api: this.api,
      instanceId: this.instanceId,
      log,
      targets: () => (config.hostApiTarget === undefined ? [] : this.set.deliveryTargets()),
    });
    this.set.onChange(() => {
      this.feed.changed();
      this.delivery.refresh();
    });
  }

  /** Finds the plugins, and starts them as soon as the gateway has said which are disabled. */
  async start(): Promise<void> {
    const orphans = await sweepOrphans();
    if (orphans > 0)
      this.log.warn({ orphans }, 'ended plugin processes of a host that was killed together with its guardian');
    const swept = await sweepSocketDirectories();
    if (swept > 0) this.log.info({ swept }, 'removed socket folders of hosts that are gone');
    await this.set.discover();
    this.desired.start();
  }

  /** The state as watchers see it. */
  snapshot(): gate.Snapshot {
    return snapshotOf(this.set, {
      instanceId: this.instanceId,
      chainEpoch: this.desired.chainEpoch,
      notReady: this.notReady(),
    });
  }

  /**
   * Asks one gate; the signal ends the chain and cancels the question in the plugin that is being asked.
   * @throws AppError `plugin_refused` (FAILED_PRECONDITION) when this host may not be asked; CANCELLED by the signal.
   */
  async dispatch(request: gate.GateRequest, signal?: AbortSignal): Promise<gate.GateAnswer> {
    this.requireEpoch(request.minChainEpoch);
    const { port, envelope } = request;
    if (!isPort(port)) throw new AppError('invalid_request', `Dispatch: there is no port "${port}"`);
    if (envelope === undefined) throw new AppError('invalid_request', 'Dispatch: the envelope is missing');
    const { endpoints, missing, budgets } = this.set.table;
    const budgetMs = request.budgetMs || (budgets.get(port) ?? this.config.gateTimeoutMs);
    const question = {
      port,
      envelope,
      budgetMs,
      chainEpoch: this.desired.chainEpoch,
      toolName: request.toolName,
      signal,
      onLateShadow: (outcome: gate.Outcome) => this.recordShadow(port, envelope, outcome),
    };
    const answer = await this.counted(runGateChain(question, endpoints.get(port) ?? [], missing));
    observeOutcomes(port, answer.outcomes);
    if (signal?.aborted) throw failure(status.CANCELLED, 'the caller cancelled the gate');
    return answer;
  }

  /** Queues a ledger event for its subscribers. */
  notify({ envelope }: gate.NotifyRequest): void {
    if (envelope === undefined || isPort(envelope.type))
      throw new AppError('invalid_request', 'Notify: the envelope must carry a ledger event');
    this.set.deliver(envelope, '', 0);
  }

  /** Executes a plugin's tool; the signal cancels it. */
  async executeTool(request: gate.ToolRequest, signal: AbortSignal): Promise<gate.ToolAnswer> {
    this.requireEpoch(request.minChainEpoch);
    const { input } = request;
    if (input === undefined) throw new AppError('invalid_request', 'ExecuteTool: the input is missing');
    const entry = this.set.table.tools.get(input.name);
    if (entry === undefined) {
      const result = plugin.MethodResult.fromPartial({ error: `no plugin of this host offers the tool ${input.name}` });
      return { result, outcome: 'not_sent', plugin: '', generation: 0 };
    }
    if (entry.matches !== undefined && !entry.matches(matchSubjectOf(input.principal, ''))) {
      const error = `the tool ${input.name} is not offered here: plugin ${entry.session.name} does not match this caller`;
      return { result: plugin.MethodResult.fromPartial({ error }), outcome: 'not_sent', plugin: '', generation: 0 };
    }
    const timeoutMs = request.timeoutMs || entry.tool.timeoutMs;
    const { name } = entry.session;
    const attributes = { [ATTRIBUTES.plugin]: name, [ATTRIBUTES.tool]: input.name };
    const answer = await this.counted(
      withSpan(`plugin ${name} tool ${input.name}`, { attributes }, async (span) => {
        const ended = await entry.session.executeTool(input, timeoutMs, signal);
        span.setAttributes({ [ATTRIBUTES.outcome]: ended.outcome, [ATTRIBUTES.pluginGeneration]: ended.generation });
        return ended;
      }),
    );
    return { ...answer, plugin: name };
  }

  listPlugins(): gate.PluginList {
    const disabled = this.desired.current?.disabled ?? noDisabled;
    const entries = [...this.set.list()].sort((a, b) => Number(a.kind === 'refused') - Number(b.kind === 'refused'));
    return { plugins: entries.map((entry) => pluginStatus(entry, disabled)) };
  }

  async startPlugin(name: string): Promise<gate.PluginStatus> {
    await this.set.start(name);
    return this.statusOf(name);
  }

  async stopPlugin(name: string): Promise<gate.PluginStatus> {
    await this.set.stop(name);
    return this.statusOf(name);
  }

  async reloadPlugin(name: string): Promise<gate.PluginStatus> {
    await this.set.reload(name);
    return this.statusOf(name);
  }

  /** What a plugin is asked from now on in the name of a tenant. @throws AppError `plugin_not_found`. */
  recordQuestions({ plugin: name, tenant }: gate.RecordRequest): Observable<gate.RecordedQuestion> {
    return this.recorder.watch(this.set.find(name).name, tenant);
  }

  async refresh(): Promise<gate.RefreshResult> {
    const { chainEpoch, disabled } = await this.desired.refresh();
    return { chainEpoch, disabled: [...disabled] };
  }

  /** Whether plugins, desired state and drain allow calls. */
  get ready(): boolean {
    return this.snapshot().ready;
  }

  /** Takes no new calls, lets open ones finish within the given time, then ends every plugin. */
  async drain(timeoutMs: number): Promise<void> {
    this.draining = true;
    this.feed.close();
    this.recorder.close();
    this.desired.close();
    const delivered = this.delivery.close();
    const idle = new Promise<void>((resolve) => {
      if (this.inFlight === 0) resolve();
      else this.onIdle = resolve;
    });
    // Both in the one time: whoever ends this host counts on it.
    await atMost(Promise.all([idle, delivered]), timeoutMs);
    await this.set.stopAll('the host ends');
    // What an event that hung has come to can still be said.
    await atMost(delivered, lastSettleMs);
    await this.guardian.close();
    this.api.close();
  }

  private statusOf(name: string): gate.PluginStatus {
    return pluginStatus(this.set.find(name), this.desired.current?.disabled ?? noDisabled);
  }

  private notReady(): string {
    if (this.draining) return 'the host drains';
    return this.desired.current === undefined
      ? 'the chain epoch and the disabled plugins were not read from the gateway yet'
      : '';
  }

  private requireEpoch(minChainEpoch: number): void {
    const reason = this.notReady();
    if (reason !== '') throw new AppError('plugin_refused', `this plugin-host is not ready: ${reason}`);
    if (minChainEpoch > this.desired.chainEpoch) {
      this.desired.refresh().catch(() => undefined);
      throw new AppError(
        'plugin_refused',
        `this plugin-host is at chain epoch ${this.desired.chainEpoch}, the caller asks for ${minChainEpoch}`,
      );
    }
  }

  private counted<T>(work: Promise<T>): Promise<T> {
    this.inFlight++;
    const done = () => {
      if (--this.inFlight === 0) this.onIdle?.();
    };
    work.then(done, done);
    return work;
  }

  /** The decision of a plugin in shadow mode that came after the gate had been answered. */
  private recordShadow(port: Port, { sessionId, runId }: plugin.Envelope, late: gate.Outcome): void {
    observeOutcomes(port, [late]);
    const reason = late.reason === '' ? '' : `: ${late.reason}`;
    const message = `${port} ${late.outcome} in ${Math.round(late.durationMs)} ms${reason}`;
    this.record(late.plugin, 'shadow', message.slice(0, 1024), { sessionId, runId });
  }

  private record(name: string, kind: string, message: string, about = { sessionId: '', runId: '' }): void {
    if (this.desired.current === undefined) return;
    this.api
      .recordPluginEvent({
        caller: host.Caller.fromPartial({ plugin: name }),
        instanceId: this.instanceId,
        kind,
        message,
        ...about,
      })
      .catch((error: Error) =>
        this.log.warn(
          { err: error, plugin: name, kind },
          'a plugin event is not in the audit: the gateway did not take it',
        ),
      );
  }
}

async function atMost(work: Promise<unknown>, milliseconds: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
}

function hostApiOf({ tls, internalToken, hostApiTarget }: PluginHostConfig): HostApiConnection {
  if (hostApiTarget === undefined) return absentHostApi;
  return connectHostApi({
    target: hostApiTarget,
    credentials: tls === undefined ? credentials.createInsecure() : credentials.createSsl(tls.ca, tls.key, tls.cert),
    ...(internalToken === undefined ? {} : { token: internalToken }),
  });
}
