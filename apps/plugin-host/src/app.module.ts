import { type DynamicModule, Module } from '@nestjs/common';
import type { PluginHostConfig } from './config.js';
import { GateController } from './grpc/gate.controller.js';
import { HealthController } from './grpc/health.controller.js';
import { INTERNAL_TOKEN, InternalCallerGuard } from './grpc/internal-caller.guard.js';
import { PluginHost } from './plugin-host.js';

@Module({})
class AppModule {}

/** Composition of the service around a plugin-host. */
export function appModule(host: PluginHost, config: PluginHostConfig): DynamicModule {
  return {
    module: AppModule,
    controllers: [GateController, HealthController],
    providers: [
      { provide: PluginHost, useValue: host },
      { provide: INTERNAL_TOKEN, useValue: config.internalToken },
      InternalCallerGuard,
    ],
  };
}
