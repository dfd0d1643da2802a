import type { Telemetry } from '@codedock/platform';
import type { RetentionDays } from '@codedock/store';
import { type DynamicModule, Module } from '@nestjs/common';
import { AgentProfiles } from './agents/agent-profiles.js';
import { AgentsController } from './agents/agents.controller.js';
import { ApprovalsController } from './approvals/approvals.controller.js';
import { AdminAuditController } from './audit/admin-audit.controller.js';
import { AuditController } from './audit/audit.controller.js';
import { Operators } from './auth/operators.js';
import { EventStreams } from './events/event-streams.js';
import { EventsController } from './events/events.controller.js';
import { Drain } from './health/drain.js';
import { HealthController } from './health/health.controller.js';
import { METRICS_HANDLER, MetricsController } from './health/metrics.controller.js';
import { RouteTable } from './http/route-table.js';
import { IdempotentRequests } from './idempotency/idempotent-requests.js';
import { KeysController } from './keys/keys.controller.js';
import { RunAdmission } from './limits/run-admission.js';
import { MemoryController } from './memory/memory.controller.js';
import { OpenApiController } from './openapi/openapi.controller.js';
import { PluginValuesController } from './plugin-values/plugin-values.controller.js';
import { PluginValues } from './plugin-values/plugin-values.js';
import { PluginRecordingController } from './plugins/plugin-recording.controller.js';
import { PluginsController } from './plugins/plugins.controller.js';
import { RETENTION_DEFAULTS, RetentionController } from './retention/retention.controller.js';
import { RunsController } from './runs/runs.controller.js';
import type { SecretCipher } from './secrets/secret-cipher.js';
import { SecretTexts } from './secrets/secret-texts.js';
import { SECRET_CIPHER, SecretsController } from './secrets/secrets.controller.js';
import { SessionsController } from './sessions/sessions.controller.js';
import { StreamTokensController } from './stream-tokens/stream-tokens.controller.js';
import { PLUGIN_HOSTS, type PluginHosts, RUN_PORTS, type RunPorts, STORE } from './tokens.js';
import { ToolCallsController } from './tool-calls/tool-calls.controller.js';
import { ToolsController } from './tools/tools.controller.js';
import { WEBHOOK_RULES, type WebhookRules, WebhooksController } from './webhooks/webhooks.controller.js';

/** The parts the HTTP API is composed of. */
export interface AppParts {
  readonly ports: RunPorts;
  readonly pluginHosts: PluginHosts;
  readonly values: PluginValues;
  readonly operators: Operators;
  readonly cipher: SecretCipher | undefined;
  readonly texts: SecretTexts;
  readonly streams: EventStreams;
  readonly idempotent: IdempotentRequests;
  readonly agents: AgentProfiles;
  readonly routes: RouteTable;
  readonly drain: Drain;
  readonly admission: RunAdmission;
  readonly webhookRules: WebhookRules;
  readonly retentionDefaults: RetentionDays;
  readonly metricsHandler: Telemetry['metricsHandler'];
}

@Module({})
class AppModule {}

/** Composition of the HTTP API. */
export function appModule(parts: AppParts): DynamicModule {
  return {
    module: AppModule,
    controllers: [
      SessionsController,
      RunsController,
      EventsController,
      ApprovalsController,
      ToolCallsController,
      WebhooksController,
      AgentsController,
      ToolsController,
      PluginsController,
      PluginRecordingController,
      PluginValuesController,
      SecretsController,
      KeysController,
      MemoryController,
      StreamTokensController,
      AdminAuditController,
      AuditController,
      RetentionController,
      HealthController,
      MetricsController,
      OpenApiController,
    ],
    providers: [
      { provide: STORE, useValue: parts.ports.store },
      { provide: RUN_PORTS, useValue: parts.ports },
      { provide: PLUGIN_HOSTS, useValue: parts.pluginHosts },
      { provide: Operators, useValue: parts.operators },
      { provide: SECRET_CIPHER, useValue: parts.cipher },
      { provide: SecretTexts, useValue: parts.texts },
      { provide: PluginValues, useValue: parts.values },
      { provide: RETENTION_DEFAULTS, useValue: parts.retentionDefaults },
      { provide: EventStreams, useValue: parts.streams },
      { provide: IdempotentRequests, useValue: parts.idempotent },
      { provide: AgentProfiles, useValue: parts.agents },
      { provide: RouteTable, useValue: parts.routes },
      { provide: Drain, useValue: parts.drain },
      { provide: RunAdmission, useValue: parts.admission },
      { provide: WEBHOOK_RULES, useValue: parts.webhookRules },
      { provide: METRICS_HANDLER, useValue: parts.metricsHandler },
    ],
  };
}
