import { AppError, wellFormedText } from '@codedock/domain';
import type { Empty, host, plugin } from '@codedock/proto';
import { publishEvents } from '@codedock/runs';
import { Controller, Inject, UseGuards } from '@nestjs/common';
import { GrpcMethod } from '@nestjs/microservices';
import { ids } from '../ids.js';
import { RUN_PORTS, type RunPorts } from '../tokens.js';
import { InternalCallerGuard } from './internal-caller.guard.js';
import { PluginAuthority } from './plugin-authority.js';
import { memoryOwner, requireName, requireText } from './plugin-memory.js';
import { rpcError } from './rpc-status.js';

const SERVICE = 'HostApi';

/** What a plugin-host may tell about its plugins. */
const KINDS: ReadonlySet<string> = new Set([
  'started',
  'ready',
  'crashed',
  'failed',
  'stopped',
  'shadow',
  'host_call_refused',
]);
const MAX_MESSAGE = 1_024;

/** The internal API of the plugin-hosts: desired state, and what plugins call back for. Answered after the commit. */
@Controller()
@UseGuards(InternalCallerGuard)
export class HostApiController {
  constructor(
    @Inject(RUN_PORTS) private readonly ports: RunPorts,
    private readonly authority: PluginAuthority,
  ) {}

  @GrpcMethod(SERVICE, 'GetDesired')
  getDesired(): Promise<host.Desired> {
    return answered(async () => {
      const { epoch, disabled } = await this.ports.store.plugins.desired();
      return { chainEpoch: epoch, disabled: [...disabled] };
    });
  }

  @GrpcMethod(SERVICE, 'MemoryGet')
  memoryGet({ caller, key }: host.MemoryGetRequest): Promise<plugin.MemoryValue> {
    return answered(async () => {
      const { sessionId = '', scope = '', name = '' } = key ?? {};
      const authority = await this.authority.require(caller, { method: 'MemoryGet', sessionId, runId: '' });
      const owner = await memoryOwner(this.ports.store, authority, scope);
      const entry = await this.ports.store.memory.get(owner, requireName(name));
      if (entry === undefined) throw new AppError('not_found', 'There is no memory with this name.');
      return { text: entry.text };
    });
  }

  @GrpcMethod(SERVICE, 'MemoryUpsert')
  memoryUpsert({ caller, entry }: host.MemoryUpsertRequest): Promise<Empty> {
    return answered(async () => {
      const { sessionId = '', scope = '', name = '' } = entry?.key ?? {};
      const authority = await this.authority.require(caller, { method: 'MemoryUpsert', sessionId, runId: '' });
      const owner = await memoryOwner(this.ports.store, authority, scope);
      await this.ports.store.memory.upsert(owner, requireName(name), wellFormedText(requireText(entry?.text ?? '')));
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'AppendNotice')
  appendNotice({ caller, notice }: host.AppendNoticeRequest): Promise<Empty> {
    return answered(async () => {
      const { sessionId = '', runId = '', text = '' } = notice ?? {};
      const { plugin, capability } = await this.authority.require(caller, { method: 'AppendNotice', sessionId, runId });
      if (text === '') throw new AppError('invalid_request', 'A notice needs a text.');
      const { events } = await this.ports.store.notices.append({
        tenantId: capability.tenant,
        sessionId,
        plugin,
        text: wellFormedText(requireText(text)),
        messageId: ids.next(),
        eventId: ids.next(),
        ...(capability.run === undefined ? {} : { runId: capability.run }),
      });
      publishEvents(this.ports.bus, events);
      return {};
    });
  }

  @GrpcMethod(SERVICE, 'RecordPluginEvent')
  recordPluginEvent({ caller, instanceId, kind, message, sessionId, runId }: host.PluginRecord): Promise<Empty> {
    return answered(async () => {
      if (!KINDS.has(kind)) throw new AppError('invalid_request', 'The kind of a plugin record is not known.');
      await this.ports.store.audit.admin({
        actor: `plugin-host ${shortened(instanceId, 100)}`,
        action: `plugin.${kind}`,
        target: shortened(caller?.plugin ?? '', 63),
        detail: {
          message: shortened(message, MAX_MESSAGE),
          sessionId: shortened(sessionId, 100),
          runId: shortened(runId, 100),
        },
      });
      return {};
    });
  }
}

function shortened(text: string, length: number): string {
  return wellFormedText(text.slice(0, length));
}

async function answered<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw rpcError(error);
  }
}
