import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { RUN_PORTS, type RunPorts } from '../tokens.js';
import { HostApiController } from './host-api.controller.js';
import { INTERNAL_TOKEN, InternalCallerGuard } from './internal-caller.guard.js';
import { PluginAuthority } from './plugin-authority.js';

@Module({})
class HostApiModule {}

/** Composition of the internal host API. */
export function hostApiModule(
  ports: RunPorts,
  authority: PluginAuthority,
  internalToken: string | undefined,
): DynamicModule {
  const providers: Provider[] = [
    { provide: RUN_PORTS, useValue: ports },
    { provide: PluginAuthority, useValue: authority },
    { provide: INTERNAL_TOKEN, useValue: internalToken },
    InternalCallerGuard,
  ];
  return { module: HostApiModule, controllers: [HostApiController], providers };
}
