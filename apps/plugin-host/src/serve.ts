import 'reflect-metadata';
import { cannotListen, type Logger, NestLogger } from '@codedock/platform';
import { gate, health, packageDefinitionOf } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import type { INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import { appModule } from './app.module.js';
import type { PluginHostConfig } from './config.js';
import { DispatchHandler } from './grpc/dispatch-handler.js';
import { GateTransport } from './grpc/gate-transport.js';
import { PluginHost } from './plugin-host.js';

/** Bytes of the largest message taken: plugins may declare payloads beyond the default cap. */
const maxMessageBytes = 64 * 1024 * 1024;
const drainTimeoutMs = 10_000;

/** A plugin-host that serves. */
export interface RunningPluginHost {
  readonly host: PluginHost;
  /** Finishes open calls, ends every plugin, closes the listener. Safe to call twice. */
  close(): Promise<void>;
}

/** Starts the service: finds the plugins, listens, and becomes ready as the gateway and the plugins come up. */
export async function servePluginHost(
  config: PluginHostConfig,
  log: Logger,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<RunningPluginHost> {
  const host = new PluginHost(config, log, environment);
  const dispatches = new DispatchHandler(host, config.internalToken, log);
  let app: INestMicroservice | undefined;
  let closing: Promise<void> | undefined;
  const drained = () => {
    const draining = host.drain(drainTimeoutMs);
    // The server waits for its streams, and callers keep theirs open for good.
    dispatches.endStreams();
    return draining;
  };
  const close = () => {
    closing ??= drained().then(() => app?.close());
    return closing;
  };
  try {
    await host.start();
    app = await NestFactory.createMicroservice<MicroserviceOptions>(appModule(host, config), {
      strategy: new GateTransport(
        {
          url: config.listen,
          package: ['codedock.gate.v1', 'grpc.health.v1'],
          packageDefinition: packageDefinitionOf(gate.GateServiceService, health.HealthService),
          credentials: serverCredentials(config),
          maxReceiveMessageLength: maxMessageBytes,
          maxSendMessageLength: maxMessageBytes,
          channelOptions: { 'grpc.enable_channelz': 0 },
        },
        dispatches,
      ),
      logger: new NestLogger(log),
      abortOnError: false,
    });
    await app.listen().catch((error: unknown) => {
      throw cannotListen('PLUGIN_HOST_LISTEN', config.listen, error);
    });
  } catch (error) {
    await close();
    throw error;
  }
  log.info({ listen: config.listen }, 'plugin-host listens');
  return { host, close };
}

function serverCredentials({ tls }: PluginHostConfig): grpc.ServerCredentials {
  if (tls === undefined) return grpc.ServerCredentials.createInsecure();
  return grpc.ServerCredentials.createSsl(tls.ca, [{ private_key: tls.key, cert_chain: tls.cert }], true);
}
