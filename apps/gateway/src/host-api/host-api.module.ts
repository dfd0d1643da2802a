import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { PluginValues } from '../plugin-values/plugin-values.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts } from '../tokens.js';
import type { CompletionParts } from './completions.js';
import { COMPLETIONS, HostApiController } from './host-api.controller.js';
import { INTERNAL_TOKEN, InternalCallerGuard } from './internal-caller.guard.js';
import { PluginAuthority } from './plugin-authority.js';
import { PluginEvents } from './plugin-events.js';

/** What the host API works with. */
export interface HostApiParts {
  readonly ports: RunPorts;
  readonly pluginHosts: PluginHosts;
  readonly authority: PluginAuthority;
  readonly values: PluginValues;
  readonly completions: CompletionParts;
  readonly events: PluginEvents;
  /** Absent with mutual TLS. */
  readonly token: string | undefined;
}

@Module({})
class HostApiModule {}

/** Composition of the internal host API. */
export function hostApiModule(parts: HostApiParts): DynamicModule {
  const providers: Provider[] = [
    { provide: RUN_PORTS, useValue: parts.ports },
    { provide: PLUGIN_HOSTS, useValue: parts.pluginHosts },
    { provide: COMPLETIONS, useValue: parts.completions },
    { provide: PluginValues, useValue: parts.values },
    { provide: PluginAuthority, useValue: parts.authority },
    { provide: PluginEvents, useValue: parts.events },
    { provide: INTERNAL_TOKEN, useValue: parts.token },
    InternalCallerGuard,
  ];
  return { module: HostApiModule, controllers: [HostApiController], providers };
}
