import type { Doorbell, LiveBus } from '@codedock/domain';
import type { Hooks } from '@codedock/hooks';
import { configuredOpenAi, type Models, openModels } from '@codedock/models';
import { countedEnds, type Logger, type Shutdown } from '@codedock/platform';
import type { PluginHosts } from '@codedock/plugin-bridge';
import { createDoorbell, createLiveBus, type DoorbellConnection, type QueueReporter } from '@codedock/queue';
import type { RunPorts } from '@codedock/runs';
import { clockOf, type DatabaseClock, openDatabaseClock, openStore, type Store } from '@codedock/store';
import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { sha256, uuids } from './adapters.js';
import type { RunnerConfig } from './config.js';
import { type RunConsumer, startRunConsumer } from './consumer/run-consumer.js';
import { openPluginHosts } from './plugins/open-plugin-hosts.js';
import { queueReporter } from './queue-reporter.js';
import { type LocalTool, openToolRegistry, type ToolRegistry } from './tools/tool-registry.js';

/** What runs reach the outside world through, apart from plugins and models. */
export interface RunnerParts {
  readonly store: Store;
  readonly doorbell: Doorbell;
  readonly bus: LiveBus;
  readonly tools: ToolRegistry;
}

/** What a runner is made of. */
export interface RunnerOptions {
  readonly config: RunnerConfig;
  readonly logger: Logger;
  /** What is opened registers how it is closed: last opened, first closed. */
  readonly shutdown: Shutdown;
  /** Hooks of this process, asked before the plugins. */
  readonly hooks?: Hooks;
  /** Tools of this process beside the built-in ones; a profile offers them by name. */
  readonly tools?: readonly LocalTool[];
  /** Laid around the parts before any run uses them. Suites of failures die in there; the program itself gives none. */
  readonly around?: (parts: RunnerParts) => RunnerParts;
}

const REPORT = Symbol('QueueReporter');
const STORE = Symbol('Store');
const CLOCK = Symbol('DatabaseClock');
const DOORBELL = Symbol('Doorbell');
const BUS = Symbol('LiveBus');
const HOSTS = Symbol('PluginHosts');
const MODELS = Symbol('Models');
const TOOLS = Symbol('ToolRegistry');

/** Injection token of the {@link RunConsumer}. */
export const CONSUMER = Symbol('RunConsumer');
/** Injection token of the store. */
export { STORE };

@Module({})
class RunnerModule {}

/** Wires the parts of a runner. Providers open their connections in the order of their needs. */
export function runnerModule(options: RunnerOptions): DynamicModule {
  const { config, logger, shutdown } = options;
  const closing = <T extends { close(): Promise<unknown> }>(name: string, opened: T): T => {
    shutdown.register(name, async () => void (await opened.close()));
    return opened;
  };
  const providers: Provider[] = [
    { provide: REPORT, useFactory: () => queueReporter(logger) },
    {
      provide: STORE,
      useFactory: async () => {
        const store = closing(
          'database',
          await openStore({
            url: config.databaseUrl.reveal(),
            directUrl: config.databaseDirectUrl.reveal(),
            maxConnections: config.databasePoolSize,
            onConnectionError: (error) => logger.warn({ err: error }, 'a connection to the database broke'),
          }),
        );
        await store.ready();
        return store;
      },
    },
    {
      provide: CLOCK,
      inject: [STORE],
      useFactory: async (store: Store) => {
        const clock = await openDatabaseClock(store);
        shutdown.register('clock', async () => clock.close());
        return clock;
      },
    },
    {
      provide: DOORBELL,
      inject: [REPORT, STORE],
      useFactory: async (report: QueueReporter) =>
        closing('doorbell', await createDoorbell(config.queueUrl.reveal(), { report })),
    },
    {
      provide: BUS,
      inject: [REPORT, DOORBELL],
      useFactory: async (report: QueueReporter) =>
        countedEnds(
          closing(
            'live bus',
            await createLiveBus({
              queueUrl: config.queueUrl.reveal(),
              directUrl: config.databaseDirectUrl.reveal(),
              report,
            }),
          ),
        ),
    },
    {
      provide: HOSTS,
      inject: [STORE, CLOCK],
      useFactory: (store: Store, clock: DatabaseClock) =>
        closing('plugin-hosts', openPluginHosts(config, store, clock, logger)),
    },
    { provide: MODELS, useFactory: () => closing('models', modelsOf(config, logger)) },
    {
      provide: TOOLS,
      inject: [STORE],
      useFactory: (store: Store) =>
        openToolRegistry({ digest: sha256, memory: store.memory, ...(options.tools && { extra: options.tools }) }),
    },
    {
      provide: CONSUMER,
      inject: [STORE, CLOCK, DOORBELL, BUS, HOSTS, MODELS, TOOLS, REPORT],
      useFactory: async (
        store: Store,
        clock: DatabaseClock,
        doorbell: DoorbellConnection,
        bus: LiveBus,
        hosts: PluginHosts,
        models: Models,
        tools: ToolRegistry,
        report: QueueReporter,
      ): Promise<RunConsumer> => {
        const opened: RunnerParts = { store, doorbell, bus, tools };
        const parts = options.around?.(opened) ?? opened;
        const consumer = await startRunConsumer({
          queueUrl: config.queueUrl.reveal(),
          concurrency: config.runnerConcurrency,
          lease: { ttlMs: config.leaseTtlMs, heartbeatMs: config.leaseHeartbeatMs },
          approvalTtlMs: config.approvalTtlMs,
          traceRuns: config.traceRuns,
          runs: {
            store: parts.store,
            doorbell: parts.doorbell,
            bus: parts.bus,
            clock: clockOf(clock, { keepsAlive: true }),
            ids: uuids,
            report: reporterOf(logger),
          },
          hooks: options.hooks ?? {},
          hosts,
          models,
          tools: parts.tools,
          logger,
          report,
        });
        shutdown.register('runs', () => consumer.drain(config.runnerDrainTimeoutMs));
        return consumer;
      },
    },
  ];
  return { module: RunnerModule, providers };
}

function modelsOf(config: RunnerConfig, logger: Logger): Models {
  const apiKey = config.openaiApiKey?.reveal();
  const openai = configuredOpenAi({
    baseUrl: config.openaiBaseUrl,
    allowPrivateNetwork: config.providerAllowPrivate,
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  if (openai === undefined) return openModels({});
  return openModels({
    openai: {
      ...openai,
      onRefusedHeaders: (refused) => logger.warn({ refused }, 'headers of a hook were refused'),
    },
  });
}

function reporterOf(logger: Logger): RunPorts['report'] {
  return ({ kind, runId, error }) => logger.warn({ kind, runId, err: error }, 'made good later by the reconciler');
}
