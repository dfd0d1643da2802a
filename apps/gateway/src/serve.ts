import type { Clock } from '@codedock/domain';
import { configuredOpenAi, type Models, openModels } from '@codedock/models';
import {
  type AppConfig,
  cannotListen,
  countedEnds,
  isTraced,
  type Logger,
  pluginHostMetrics,
  readTlsFiles,
  type Shutdown,
  type Telemetry,
  type TlsFiles,
} from '@codedock/platform';
import { capabilitySigner, capabilityVerifier, connectPluginHosts } from '@codedock/plugin-bridge';
import { createDoorbell, createLiveBus, type QueueReporter } from '@codedock/queue';
import { type RunIncident, type RunPorts, startReconciler } from '@codedock/runs';
import { clockOf, openDatabaseClock, openStore, type RetentionDays, type Store } from '@codedock/store';
import { AgentProfiles } from './agents/agent-profiles.js';
import { readProfiles } from './agents/read-profiles.js';
import { Authenticator } from './auth/authenticator.js';
import { Operators } from './auth/operators.js';
import { EventStreams } from './events/event-streams.js';
import { SessionFeeds } from './events/session-feeds.js';
import { Drain } from './health/drain.js';
import { startHostApi } from './host-api/create-host-api.js';
import { PluginAuthority } from './host-api/plugin-authority.js';
import { PluginEvents } from './host-api/plugin-events.js';
import { createHttpApp } from './http/create-app.js';
import { RouteTable } from './http/route-table.js';
import { defined } from './http/shapes.js';
import { IdempotentRequests } from './idempotency/idempotent-requests.js';
import { ids } from './ids.js';
import { FairDoorbell } from './limits/fair-doorbell.js';
import { QueuePressure } from './limits/queue-pressure.js';
import { RequestRate } from './limits/request-rate.js';
import { RequestsInFlight } from './limits/requests-in-flight.js';
import { RunAdmission } from './limits/run-admission.js';
import { PluginValues } from './plugin-values/plugin-values.js';
import { startRetention } from './retention/start-retention.js';
import { type SecretCipher, secretCipher } from './secrets/secret-cipher.js';
import { SecretTexts } from './secrets/secret-texts.js';
import { startDeliveryWatch } from './telemetry/delivery-watch.js';
import { observedInput } from './telemetry/observed-input.js';
import { startQueueGauges } from './telemetry/queue-gauges.js';
import type { PluginHosts } from './tokens.js';
import { startWebhookSender } from './webhooks/webhook-sender.js';

/** How long an answer about a key is used again, and so how long a revoked key may still work, milliseconds. */
const KEY_CACHE_MS = 5_000;
/** How often the database is asked for news of followed sessions, milliseconds. */
const FEED_SWEEP_MS = 2_000;
const SSE_LIMITS = { bufferBytes: 1024 * 1024, heartbeatMs: 15_000, endMs: 5_000 };
/** How long an idempotency claim outlives the gate's budget, and a duplicate waits beyond it, milliseconds. */
const CLAIM_GRACE_MS = 8_000;
const DUPLICATE_WAIT_MS = 1_000;

/** What the use cases of runs reach the outside world through. */
export type GatewayParts = Pick<RunPorts, 'store' | 'doorbell' | 'bus'>;

export interface ServeOptions {
  readonly config: AppConfig<'gateway'>;
  readonly logger: Logger;
  readonly telemetry: Pick<Telemetry, 'metricsHandler'>;
  readonly shutdown: Shutdown;
  /** Laid around the parts before any request uses them. Suites of failures die in there; the program itself gives none. */
  readonly around?: (parts: GatewayParts) => GatewayParts;
}

/** A gateway that serves. */
export interface RunningGateway {
  /** Where the HTTP API listens. */
  readonly url: string;
}

/**
 * Starts the gateway; every part registers how it stops. Stopping answers new requests with `shutting_down`, ends event
 * streams in good order, lets open requests finish, then closes what they used.
 */
export async function serveGateway({
  config,
  logger,
  telemetry,
  shutdown,
  around,
}: ServeOptions): Promise<RunningGateway> {
  const tls = readTlsFiles(config);
  const profiles = await readProfiles({
    ...(config.profilesFile === undefined ? {} : { file: config.profilesFile }),
    ...(config.openaiApiKey === undefined ? {} : { openaiModel: config.openaiModel }),
  });
  const store = await openParts(config, logger, shutdown);
  await store.ready();
  const databaseClock = await openDatabaseClock(store);
  shutdown.register('clock', async () => databaseClock.close());
  const clock = clockOf(databaseClock, { keepsAlive: false });
  await store.agents.upsertFromFile(profiles);
  const pluginHosts = connectHosts(config, tls, store, clock, logger);
  shutdown.register('plugin-hosts', () => pluginHosts.close());
  const opened = await runPorts(config, { store, clock, pluginHosts }, logger, shutdown);
  const ports = around === undefined ? opened : { ...opened, ...around(opened) };
  const cipher = await cipherOf(config, store, logger);
  const texts = new SecretTexts(cipher);
  const values = new PluginValues(store.pluginValues, cipher);
  await serveHostApi(
    config,
    tls,
    { ports, pluginHosts, values, models: openProviders(config, shutdown) },
    logger,
    shutdown,
  );

  const feeds = new SessionFeeds({
    bus: ports.bus,
    readLastSeqs: (sessionIds) => store.ledger.lastSeqs(sessionIds),
    sweepMs: FEED_SWEEP_MS,
    onError: (error) => logger.warn({ err: error }, 'live events are late: the bus or the database could not be asked'),
  });
  shutdown.register('session feeds', () => feeds.close());
  const url = await serveHttp(
    config,
    { ports, pluginHosts, feeds, store, values, cipher, texts },
    logger,
    telemetry,
    shutdown,
  );
  if (telemetry.metricsHandler !== undefined) shutdown.register('queue gauges', startQueueGauges(store.runs, logger));
  const reconciler = startReconciler(ports, { reminderShare: config.approvalReminderPercent / 100 });
  shutdown.register('reconciler', () => reconciler.stop());
  const webhooks = startWebhookSender({
    webhooks: store.webhooks,
    texts,
    leading: () => reconciler.leading,
    clock,
    logger,
    allowPrivate: config.webhookAllowPrivate,
  });
  shutdown.register('webhooks', () => webhooks.stop());
  const retention = startRetention({
    store,
    defaults: retentionDefaults(config),
    leading: () => reconciler.leading,
    clock,
    logger,
  });
  shutdown.register('retention', retention);
  shutdown.register(
    'delivery watch',
    startDeliveryWatch({ deliveries: store.pluginDeliveries, leading: () => reconciler.leading, clock, logger }),
  );
  logger.info({ url }, 'gateway listens');
  return { url };
}

async function openParts(config: AppConfig<'gateway'>, logger: Logger, shutdown: Shutdown): Promise<Store> {
  const store = await openStore({
    url: config.databaseUrl.reveal(),
    directUrl: config.databaseDirectUrl.reveal(),
    maxConnections: config.databasePoolSize,
    onConnectionError: (error) => logger.warn({ err: error }, 'a database connection broke'),
  });
  shutdown.register('store', () => store.close());
  return store;
}

function connectHosts(
  config: AppConfig<'gateway'>,
  tls: TlsFiles | undefined,
  store: Store,
  clock: Clock,
  logger: Logger,
): PluginHosts {
  const urls = (config.pluginHostUrls ?? []).map(addressOf);
  const key = config.capabilityKey?.reveal();
  return connectPluginHosts({
    urls,
    clientName: `gateway ${process.pid}`,
    gateTimeoutMs: config.pluginGateTimeoutMs,
    logger,
    metrics: pluginHostMetrics,
    traced: isTraced,
    authorityNow: clock.now,
    epochStore: {
      load: () => store.plugins.loadSnapshot(),
      save: (epoch, snapshot) => store.plugins.saveSnapshot(epoch, snapshot),
    },
    ...(tls === undefined ? {} : { tls }),
    ...(tls !== undefined || config.internalToken === undefined ? {} : { token: config.internalToken.reveal() }),
    ...(key === undefined ? {} : { signCapability: capabilitySigner(key) }),
  });
}

async function runPorts(
  config: AppConfig<'gateway'>,
  { store, clock, pluginHosts }: { store: Store; clock: Clock; pluginHosts: PluginHosts },
  logger: Logger,
  shutdown: Shutdown,
): Promise<RunPorts> {
  const report: QueueReporter = (incident) => logger.warn(incident, 'queue or live bus trouble');
  const queueUrl = config.queueUrl.reveal();
  const bus = countedEnds(await createLiveBus({ queueUrl, directUrl: config.databaseDirectUrl.reveal(), report }));
  shutdown.register('live bus', () => bus.close());
  const doorbell = await createDoorbell(queueUrl, { report });
  shutdown.register('doorbell', () => doorbell.close());
  return {
    store,
    bus,
    doorbell,
    clock,
    ids,
    hooks: observedInput(pluginHosts.hooks()),
    report: ({ kind, runId, error }: RunIncident) =>
      logger.warn({ kind, runId, err: error }, 'a run needs the reconciler'),
  };
}

/** The cipher of secrets at rest; those that no known key opens are told of at once, not when they are needed. */
async function cipherOf(config: AppConfig<'gateway'>, store: Store, logger: Logger): Promise<SecretCipher | undefined> {
  const accepted = config.secretsKeysAccepted?.map((each) => each.reveal()) ?? [];
  const cipher = config.secretsKey === undefined ? undefined : secretCipher(config.secretsKey.reveal(), accepted);
  for (const { kind, keyId, count } of await store.secrets.counts()) {
    if (keyId !== '' && cipher?.keyIds.includes(keyId) !== true) {
      logger.error(
        { secrets: count, kind, keyId },
        'secrets were stored under a key that is not known now and cannot be read; give it in CODEDOCK_SECRETS_KEY or CODEDOCK_SECRETS_KEYS_ACCEPTED, or store them anew',
      );
    } else if (keyId === '') {
      logger.warn(
        { secrets: count, kind },
        'secrets are stored without encryption; set CODEDOCK_SECRETS_KEY and run "codedock secrets reencrypt"',
      );
    }
  }
  return cipher;
}

/** The model providers that completions of plugins use. */
function openProviders(config: AppConfig<'gateway'>, shutdown: Shutdown): Models {
  const apiKey = config.openaiApiKey?.reveal();
  const openai = configuredOpenAi({
    baseUrl: config.openaiBaseUrl,
    allowPrivateNetwork: config.providerAllowPrivate,
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  const models = openModels(openai === undefined ? {} : { openai });
  shutdown.register('models', () => models.close());
  return models;
}

async function serveHostApi(
  config: AppConfig<'gateway'>,
  tls: TlsFiles | undefined,
  {
    ports,
    pluginHosts,
    values,
    models,
  }: { ports: RunPorts; pluginHosts: PluginHosts; values: PluginValues; models: Models },
  logger: Logger,
  shutdown: Shutdown,
): Promise<void> {
  const token = config.internalToken?.reveal();
  if (tls === undefined && token === undefined) {
    logger.info('the host API is not served: neither CODEDOCK_INTERNAL_TOKEN nor the CODEDOCK_TLS_* files are set');
    return;
  }
  const key = config.capabilityKey?.reveal();
  const accepted = config.capabilityKeysAccepted?.map((each) => each.reveal()) ?? [];
  const verify = key === undefined ? undefined : capabilityVerifier(key, ...accepted);
  const { now } = ports.clock;
  const authority = new PluginAuthority(verify, ports.store, logger, now);
  const listen = addressOf(config.hostApiListen);
  const app = await startHostApi({
    ports,
    pluginHosts,
    values,
    completions: { store: ports.store, models, ids, now },
    authority,
    events: new PluginEvents(ports.store.pluginDeliveries, key === undefined ? undefined : capabilitySigner(key), now),
    listen,
    tls,
    token: tls === undefined ? token : undefined,
    logger,
  }).catch((error: unknown) => {
    throw cannotListen('CODEDOCK_HOST_API_LISTEN', config.hostApiListen, error);
  });
  shutdown.register('host API', () => app.close());
  logger.info({ listen }, 'the host API listens');
}

async function serveHttp(
  config: AppConfig<'gateway'>,
  {
    ports,
    pluginHosts,
    feeds,
    store,
    values,
    cipher,
    texts,
  }: {
    ports: RunPorts;
    pluginHosts: PluginHosts;
    feeds: SessionFeeds;
    store: Store;
    values: PluginValues;
    cipher: SecretCipher | undefined;
    texts: SecretTexts;
  },
  logger: Logger,
  telemetry: Pick<Telemetry, 'metricsHandler'>,
  shutdown: Shutdown,
): Promise<string> {
  const drain = new Drain();
  const limits = { ...SSE_LIMITS, stallMs: config.eventStreamStallMs };
  const streams = new EventStreams(store.ledger, feeds, limits, logger, config.maxEventStreams);
  const pressure = new QueuePressure({
    max: config.maxQueuedRuns,
    queued: () => store.runs.queued(),
    onError: (error) => logger.warn({ err: error }, 'how many runs are queued could not be looked up'),
  });
  shutdown.register('queue pressure', () => pressure.close());
  const budgetMs = () => inputBudget(pluginHosts, config.pluginGateTimeoutMs);
  const authenticator = new Authenticator({
    findKey: (hash) => callerOf(store, hash),
    keyIsLive: (tenantId, keyId) => store.streamTokens.keyIsLive(tenantId, keyId),
    cacheMs: KEY_CACHE_MS,
    now: () => performance.now(),
  });
  const operators = new Operators(config.operatorTenants);
  const app = await createHttpApp({
    parts: {
      operators,
      ports,
      pluginHosts,
      values,
      cipher,
      texts,
      streams,
      drain,
      admission: new RunAdmission(
        pressure,
        { pendingPerSession: config.maxPendingPerSession, pendingPerTenant: config.maxPendingPerTenant },
        new FairDoorbell(() => performance.now()),
      ),
      retentionDefaults: retentionDefaults(config),
      webhookRules: { allowPrivate: config.webhookAllowPrivate },
      routes: new RouteTable(),
      agents: new AgentProfiles(store.agents, () => performance.now()),
      idempotent: new IdempotentRequests(
        store.idempotency,
        { budgetMs, graceMs: CLAIM_GRACE_MS, waitMs: () => budgetMs() + DUPLICATE_WAIT_MS },
        texts,
      ),
      metricsHandler: telemetry.metricsHandler,
    },
    authority: { authenticator, streamTokens: store.streamTokens, operators },
    limits: {
      inFlight: new RequestsInFlight(config.maxRequestsInFlight),
      rate: new RequestRate({ perSecond: config.tenantRequestsPerSecond, now: () => performance.now() }),
    },
    corsOrigins: config.corsOrigins ?? [],
    logger,
  });
  shutdown.register('HTTP', async () => {
    drain.begin();
    await streams.close();
    await app.close();
  });
  await app.listen(config.httpListen.port, config.httpListen.host).catch((error: unknown) => {
    throw cannotListen('CODEDOCK_HTTP_LISTEN', config.httpListen, error);
  });
  return app.getUrl();
}

function retentionDefaults(config: AppConfig<'gateway'>): RetentionDays {
  return defined({
    events: config.eventRetentionDays,
    audit: config.auditRetentionDays,
    messages: config.messageRetentionDays,
  });
}

function inputBudget(pluginHosts: PluginHosts, usualMs: number): number {
  return pluginHosts.ports().find(({ port }) => port === 'agent/input')?.budgetMs ?? usualMs;
}

async function callerOf(store: Store, hash: string) {
  const key = await store.keys.authenticate(hash);
  if (key === undefined) return undefined;
  const { tenantId, tenantName, id: keyId, name: keyName, scopes, requestsPerSecond } = key;
  return { tenantId, tenantName, keyId, keyName, scopes, ...defined({ requestsPerSecond }) };
}

function addressOf({ host, port }: { readonly host: string; readonly port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
