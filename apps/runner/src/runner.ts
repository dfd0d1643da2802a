import 'reflect-metadata';
import {
  cannotListen,
  Health,
  NestLogger,
  type OperationsServer,
  startOperationsServer,
  type Telemetry,
} from '@codedock/platform';
import type { Store } from '@codedock/store';
import { NestFactory } from '@nestjs/core';
import type { RunConsumer } from './consumer/run-consumer.js';
import { CONSUMER, type RunnerOptions, runnerModule, STORE } from './runner.module.js';

export interface StartRunner extends RunnerOptions {
  /** Serves /metrics when it is there. */
  readonly telemetry?: Telemetry;
}

/** A running runner; `shutdown.run()` of its options drains and ends it. */
export interface Runner {
  readonly consumer: RunConsumer;
  readonly store: Store;
  /** Port of /healthz, /readyz and /metrics. */
  readonly healthPort: number;
}

/**
 * Starts a runner: connects, serves its health, takes runs.
 * @throws AppError `config_invalid`, `queue_unavailable` or `store_unavailable` with the remedy; what was opened is closed.
 */
export async function startRunner(options: StartRunner): Promise<Runner> {
  const { config, logger, shutdown } = options;
  const health = new Health();
  let started = false;
  health.addReadiness('start', () => started || 'not everything is connected yet');
  try {
    const operations = await listen(options, health);
    shutdown.register('operations', () => operations.close());
    const app = await NestFactory.createApplicationContext(runnerModule(options), {
      logger: new NestLogger(logger),
      abortOnError: false,
    });
    const consumer = app.get<RunConsumer>(CONSUMER);
    const store = app.get<Store>(STORE);
    health.addReadiness('database', () => store.ready().then(() => true as const));
    health.addReadiness('queue', () => consumer.queueTrouble ?? true);
    health.addReadiness('plugins', () => consumer.taking || 'no runs are taken until the plugins can be asked');
    shutdown.begun.addEventListener('abort', () => health.drain(), { once: true });
    started = true;
    logger.info({ concurrency: config.runnerConcurrency, health: operations.port }, 'the runner takes runs');
    return { consumer, store, healthPort: operations.port };
  } catch (error) {
    await shutdown.run('the start failed');
    throw error;
  }
}

async function listen({ config, telemetry }: StartRunner, health: Health): Promise<OperationsServer> {
  try {
    return await startOperationsServer({
      listen: config.runnerHealthListen,
      health,
      metrics: telemetry?.metricsHandler,
    });
  } catch (cause) {
    throw cannotListen('CODEDOCK_RUNNER_HEALTH_LISTEN', config.runnerHealthListen, cause);
  }
}
