import { type Logger, NestLogger, type TlsFiles } from '@codedock/platform';
import { host, maxMessageBytes, packageDefinitionOf } from '@codedock/proto';
import * as grpc from '@grpc/grpc-js';
import type { INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type MicroserviceOptions, Transport } from '@nestjs/microservices';
import { type HostApiParts, hostApiModule } from './host-api.module.js';

export interface HostApiOptions extends HostApiParts {
  /** `host:port`. */
  readonly listen: string;
  readonly tls: TlsFiles | undefined;
  readonly logger: Logger;
}

/** Serves the internal host API to plugin-hosts. Resolves when it listens. */
export async function startHostApi(options: HostApiOptions): Promise<INestMicroservice> {
  const { listen, tls, logger } = options;
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(hostApiModule(options), {
    transport: Transport.GRPC,
    options: {
      url: listen,
      package: 'codedock.host.v1',
      packageDefinition: packageDefinitionOf(host.HostApiService),
      credentials: credentialsOf(tls),
      maxReceiveMessageLength: maxMessageBytes,
      maxSendMessageLength: maxMessageBytes,
    },
    logger: new NestLogger(logger.child({}, { level: 'warn' })),
    abortOnError: false,
  });
  await app.listen();
  return app;
}

function credentialsOf(tls: TlsFiles | undefined): grpc.ServerCredentials {
  if (tls === undefined) return grpc.ServerCredentials.createInsecure();
  return grpc.ServerCredentials.createSsl(tls.ca, [{ private_key: tls.key, cert_chain: tls.cert }], true);
}
