import {
  address,
  addressList,
  choice,
  duration,
  flag,
  folderList,
  integer,
  nameList,
  originList,
  secretKey,
  secretKeyList,
  secretList,
  secretText,
  secretUrl,
  text,
  url,
  type ValueType,
} from './value-types.js';

/** The programs that read configuration. */
export type App = 'gateway' | 'runner' | 'plugin-host' | 'cli';

/** When a value is there: always given by the user, always by default, or perhaps not at all. */
export type Presence = 'required' | 'default' | 'optional';

/** One environment variable of CodeDock. */
export interface Variable<T = unknown, P extends Presence = Presence, A extends App = App> extends ValueType<T> {
  readonly name: string;
  /** Further names with the same meaning; two names with different values are refused. */
  readonly aliases: readonly string[];
  readonly presence: P;
  /** Default, written as the user would write it. */
  readonly fallback: string | undefined;
  /** Name of the variable whose value is the default. */
  readonly fallbackFrom: string | undefined;
  /** Never shown, and readable from the file named by `<name>_FILE`. */
  readonly secret: boolean;
  readonly apps: readonly A[];
  readonly doc: string;
}

interface Description<A extends App> {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly secret?: boolean;
  readonly apps: readonly A[];
  readonly doc: string;
}

function required<T, const A extends App>(type: ValueType<T>, about: Description<A>): Variable<T, 'required', A> {
  return variable(type, 'required', about, {});
}

function optional<T, const A extends App>(type: ValueType<T>, about: Description<A>): Variable<T, 'optional', A> {
  return variable(type, 'optional', about, {});
}

function withDefault<T, const A extends App>(
  type: ValueType<T>,
  fallback: string | { readonly from: string },
  about: Description<A>,
): Variable<T, 'default', A> {
  return variable(
    type,
    'default',
    about,
    typeof fallback === 'string' ? { fallback } : { fallbackFrom: fallback.from },
  );
}

function variable<T, P extends Presence, A extends App>(
  type: ValueType<T>,
  presence: P,
  about: Description<A>,
  defaults: { readonly fallback?: string; readonly fallbackFrom?: string },
): Variable<T, P, A> {
  return Object.freeze({
    ...type,
    name: about.name,
    aliases: about.aliases ?? [],
    presence,
    fallback: defaults.fallback,
    fallbackFrom: defaults.fallbackFrom,
    secret: about.secret ?? false,
    apps: about.apps,
    doc: about.doc,
  });
}

const SERVICES = ['gateway', 'runner', 'plugin-host'] as const;
const DATABASE_APPS = ['gateway', 'runner'] as const;
const POSTGRES = ['postgres:', 'postgresql:'] as const;
const REDIS = ['redis:', 'rediss:', 'redis+sentinel:', 'rediss+sentinel:', 'redis+cluster:', 'rediss+cluster:'];
const SECOND = 1_000;
const DAY = 86_400_000;

/**
 * Every variable of every program, by the key under which it appears in the program's configuration.
 * The documentation and `.env.example` are generated from this list.
 */
export const VARIABLES = Object.freeze({
  // Storage
  databaseUrl: required(secretUrl(POSTGRES), {
    name: 'DATABASE_URL',
    secret: true,
    apps: DATABASE_APPS,
    doc: 'PostgreSQL that holds everything. May point to a pooler.',
  }),
  databaseDirectUrl: withDefault(
    secretUrl(POSTGRES),
    { from: 'DATABASE_URL' },
    {
      name: 'DATABASE_DIRECT_URL',
      secret: true,
      apps: DATABASE_APPS,
      doc: 'The same database without a pooler, for LISTEN and advisory locks.',
    },
  ),
  databasePoolSize: withDefault(integer({ min: 2, max: 200 }), '10', {
    name: 'CODEDOCK_DATABASE_POOL_SIZE',
    apps: DATABASE_APPS,
    doc: 'Most connections that one process opens to DATABASE_URL.',
  }),
  queueUrl: withDefault(
    secretUrl([...REDIS, ...POSTGRES]),
    { from: 'DATABASE_URL' },
    {
      name: 'QUEUE_URL',
      secret: true,
      apps: DATABASE_APPS,
      doc: 'What backs queue and live bus: PostgreSQL, or Redis as one server (redis://host), behind Sentinels (redis+sentinel://host,host/name of the master) or as a Cluster (redis+cluster://host,host); rediss… for TLS.',
    },
  ),

  // HTTP
  httpListen: withDefault(address(), '127.0.0.1:8080', {
    name: 'CODEDOCK_HTTP_LISTEN',
    apps: ['gateway'],
    doc: 'Where the HTTP API listens. 0.0.0.0:8080 in a container.',
  }),
  corsOrigins: optional(originList(), {
    name: 'CODEDOCK_CORS_ORIGINS',
    apps: ['gateway'],
    doc: 'Web origins whose pages may call the API. Unset: none.',
  }),
  runnerHealthListen: withDefault(address(), '127.0.0.1:8081', {
    name: 'CODEDOCK_RUNNER_HEALTH_LISTEN',
    aliases: ['CODEDOCK_HEALTH_LISTEN'],
    apps: ['runner'],
    doc: 'Where the runner answers /healthz, /readyz and /metrics.',
  }),
  pluginHostHealthListen: withDefault(address(), '127.0.0.1:8082', {
    name: 'CODEDOCK_PLUGIN_HOST_HEALTH_LISTEN',
    aliases: ['CODEDOCK_HEALTH_LISTEN'],
    apps: ['plugin-host'],
    doc: 'Where the plugin-host answers /healthz, /readyz and /metrics.',
  }),

  // Plugins
  pluginDirs: optional(folderList(), {
    name: 'CODEDOCK_PLUGIN_DIR',
    aliases: ['PLUGIN_DIR'],
    apps: ['plugin-host', 'cli'],
    doc: 'Folders with one sub-folder per plugin. A plugin of a later folder replaces one with the same name.',
  }),
  pluginHostUrls: optional(addressList(), {
    name: 'PLUGIN_HOST_URL',
    apps: DATABASE_APPS,
    doc: 'Addresses of the plugin-host replicas; a name may resolve to several. Unset: no gate is asked.',
  }),
  pluginHostListen: withDefault(address(), '127.0.0.1:7070', {
    name: 'PLUGIN_HOST_LISTEN',
    apps: ['plugin-host'],
    doc: 'Where the plugin-host serves gates (gRPC). Outside loopback it needs the CODEDOCK_TLS_* files.',
  }),
  hostApiUrl: optional(address(), {
    name: 'CODEDOCK_HOST_API_URL',
    apps: ['plugin-host'],
    doc: "Address of the gateways' internal host API. Unset: nothing is disabled, and callbacks of plugins are refused.",
  }),
  hostApiListen: withDefault(address(), '127.0.0.1:7071', {
    name: 'CODEDOCK_HOST_API_LISTEN',
    apps: ['gateway'],
    doc: 'Where the gateway serves the internal host API (gRPC). Outside loopback it needs the CODEDOCK_TLS_* files.',
  }),
  pluginRpcTimeoutMs: withDefault(duration({ min: 10, max: 30 * SECOND }), '2s', {
    name: 'PLUGIN_RPC_TIMEOUT',
    apps: SERVICES,
    doc: 'Longest time one plugin may take for one question. At most PLUGIN_GATE_TIMEOUT.',
  }),
  pluginGateTimeoutMs: withDefault(duration({ min: 200, max: 30 * SECOND }), '2s', {
    name: 'PLUGIN_GATE_TIMEOUT',
    apps: SERVICES,
    doc: 'Longest time a whole gate may take, all its plugins together.',
  }),
  pluginStartTimeoutMs: withDefault(duration({ min: 100, max: 300 * SECOND }), '10s', {
    name: 'PLUGIN_START_TIMEOUT',
    apps: ['plugin-host'],
    doc: 'Longest time from starting a plugin until it is ready.',
  }),

  // Runs
  runnerConcurrency: withDefault(integer({ min: 1, max: 1_000 }), '8', {
    name: 'CODEDOCK_RUNNER_CONCURRENCY',
    apps: ['runner'],
    doc: 'Runs that one runner executes at the same time.',
  }),
  runnerDrainTimeoutMs: withDefault(duration({ max: 3_600 * SECOND }), '25s', {
    name: 'RUNNER_DRAIN_TIMEOUT',
    apps: ['runner'],
    doc: 'After SIGTERM, how long turns may still finish before their runs are handed back.',
  }),
  gracePeriodMs: optional(duration(), {
    name: 'CODEDOCK_GRACE_PERIOD',
    apps: ['runner'],
    doc: 'Time between SIGTERM and SIGKILL that the platform grants; must be longer than RUNNER_DRAIN_TIMEOUT.',
  }),
  leaseTtlMs: withDefault(duration({ min: 500, max: 600 * SECOND }), '15s', {
    name: 'CODEDOCK_LEASE_TTL',
    apps: ['runner'],
    doc: 'How long a runner owns a run without a sign of life; a dead one is replaced after this time.',
  }),
  leaseHeartbeatMs: withDefault(duration({ min: 100, max: 300 * SECOND }), '5s', {
    name: 'CODEDOCK_LEASE_HEARTBEAT',
    apps: ['runner'],
    doc: 'How often a runner renews its leases. At most half of CODEDOCK_LEASE_TTL.',
  }),
  approvalTtlMs: withDefault(duration({ min: SECOND, max: 365 * DAY }), '24h', {
    name: 'APPROVAL_TTL',
    apps: ['runner'],
    doc: 'How long an approval may stay undecided before it expires.',
  }),
  approvalReminderPercent: withDefault(integer({ min: 0, max: 99 }), '50', {
    name: 'APPROVAL_REMINDER_PERCENT',
    apps: ['gateway'],
    doc: 'Part of its life after which people are reminded of an open approval, once. 0: never.',
  }),
  webhookAllowPrivate: withDefault(flag(), 'false', {
    name: 'CODEDOCK_WEBHOOK_ALLOW_PRIVATE',
    apps: ['gateway'],
    doc: 'Whether webhooks may go to private and loopback addresses, and to loopback ones without TLS.',
  }),
  eventRetentionDays: optional(integer({ min: 1, max: 36_500 }), {
    name: 'CODEDOCK_EVENT_RETENTION_DAYS',
    apps: ['gateway'],
    doc: 'Days after which ledger events are deleted, for tenants without a setting of their own. Unset: never.',
  }),
  auditRetentionDays: optional(integer({ min: 1, max: 36_500 }), {
    name: 'CODEDOCK_AUDIT_RETENTION_DAYS',
    apps: ['gateway'],
    doc: 'Days after which hook records and acts of administrators are deleted, in the same way. Unset: never.',
  }),
  messageRetentionDays: optional(integer({ min: 1, max: 36_500 }), {
    name: 'CODEDOCK_MESSAGE_RETENTION_DAYS',
    apps: ['gateway'],
    doc: 'Days after which messages, tool calls and ended approvals are deleted, in the same way. Unset: never.',
  }),

  // What is refused before memory grows
  tenantRequestsPerSecond: withDefault(integer({ min: 1, max: 1_000_000 }), '2000', {
    name: 'CODEDOCK_TENANT_REQUESTS_PER_SECOND',
    apps: ['gateway'],
    doc: 'Requests of one tenant that a gateway answers a second, for tenants without a setting of their own; more are 429.',
  }),
  maxRequestsInFlight: withDefault(integer({ min: 1, max: 100_000 }), '1000', {
    name: 'CODEDOCK_MAX_REQUESTS_IN_FLIGHT',
    apps: ['gateway'],
    doc: 'Requests with a body that a gateway works on at the same time; together their bodies take at most 64 MiB.',
  }),
  maxEventStreams: withDefault(integer({ min: 1, max: 100_000 }), '2000', {
    name: 'CODEDOCK_MAX_EVENT_STREAMS',
    apps: ['gateway'],
    doc: 'Event streams that a gateway keeps open at the same time; each may hold up to 1 MiB that its client has not read.',
  }),
  eventStreamStallMs: withDefault(duration({ min: SECOND, max: 600 * SECOND }), '30s', {
    name: 'CODEDOCK_EVENT_STREAM_STALL_TIMEOUT',
    apps: ['gateway'],
    doc: 'How long a client of an event stream may leave unread what it was sent; then its connection is closed, and it may come back.',
  }),
  maxQueuedRuns: withDefault(integer({ min: 1, max: 10_000_000 }), '100000', {
    name: 'CODEDOCK_MAX_QUEUED_RUNS',
    apps: ['gateway'],
    doc: 'Queued runs of the whole installation above which no further run is taken. Counted once a second.',
  }),
  maxPendingPerTenant: withDefault(integer({ min: 1, max: 1_000_000 }), '10000', {
    name: 'CODEDOCK_MAX_PENDING_PER_TENANT',
    apps: ['gateway'],
    doc: 'Runs of one tenant that may wait for their session or for the share of the tenant.',
  }),
  maxPendingPerSession: withDefault(integer({ min: 1, max: 1_000_000 }), '100', {
    name: 'CODEDOCK_MAX_PENDING_PER_SESSION',
    apps: ['gateway'],
    doc: 'Runs of one session that may wait for the active one.',
  }),
  profilesFile: optional(text('file'), {
    name: 'CODEDOCK_PROFILES_FILE',
    apps: ['gateway'],
    doc: 'YAML or JSON file with agent profiles, beside the built-in one. Unset: the built-in one alone.',
  }),

  // Model providers
  openaiApiKey: optional(secretText(), {
    name: 'OPENAI_API_KEY',
    secret: true,
    apps: DATABASE_APPS,
    doc: 'Key for the OpenAI-compatible provider.',
  }),
  openaiBaseUrl: withDefault(url(['https:', 'http:']), 'https://api.openai.com/v1', {
    name: 'OPENAI_BASE_URL',
    apps: DATABASE_APPS,
    doc: 'Address of the OpenAI-compatible provider.',
  }),
  openaiModel: withDefault(text('model'), 'gpt-4o-mini', {
    name: 'OPENAI_MODEL',
    apps: ['gateway'],
    doc: 'Model of the built-in agent profile, once OPENAI_API_KEY is set; without a key it uses the fake model.',
  }),
  providerAllowPrivate: withDefault(flag(), 'false', {
    name: 'CODEDOCK_PROVIDER_ALLOW_PRIVATE',
    apps: DATABASE_APPS,
    doc: 'Whether providers in private and loopback address ranges may be called.',
  }),

  // Trust between the services
  capabilityKey: optional(secretText(32), {
    name: 'CODEDOCK_CAPABILITY_KEY',
    secret: true,
    apps: DATABASE_APPS,
    doc: 'Signs what a plugin may call back for. The same for every gateway and runner.',
  }),
  secretsKey: optional(secretKey(32), {
    name: 'CODEDOCK_SECRETS_KEY',
    secret: true,
    apps: ['gateway'],
    doc: 'Encrypts the secrets of plugins and webhooks in the database: 32 bytes, hexadecimal or base64. The same for every gateway.',
  }),
  capabilityKeysAccepted: optional(secretList(32), {
    name: 'CODEDOCK_CAPABILITY_KEYS_ACCEPTED',
    secret: true,
    apps: ['gateway'],
    doc: 'Further keys under which a capability is accepted, separated by commas, while CODEDOCK_CAPABILITY_KEY changes.',
  }),
  secretsKeysAccepted: optional(secretKeyList(32), {
    name: 'CODEDOCK_SECRETS_KEYS_ACCEPTED',
    secret: true,
    apps: ['gateway'],
    doc: 'Further keys that open secrets, separated by commas, while CODEDOCK_SECRETS_KEY changes. Nothing is encrypted with them.',
  }),
  operatorTenants: optional(nameList(), {
    name: 'CODEDOCK_OPERATOR_TENANTS',
    apps: ['gateway'],
    doc: 'Names of the tenants whose admin keys may change what all tenants share, such as plugins. Unset: every tenant.',
  }),
  internalToken: optional(secretText(32), {
    name: 'CODEDOCK_INTERNAL_TOKEN',
    secret: true,
    apps: SERVICES,
    doc: 'Bearer token between the services on loopback, where there is no TLS.',
  }),
  tlsCaFile: optional(text('file'), {
    name: 'CODEDOCK_TLS_CA_FILE',
    apps: SERVICES,
    doc: 'PEM file of the authority that signs the certificates of the services. With CERT and KEY: mutual TLS.',
  }),
  tlsCertFile: optional(text('file'), {
    name: 'CODEDOCK_TLS_CERT_FILE',
    apps: SERVICES,
    doc: 'PEM file of the certificate of this service.',
  }),
  tlsKeyFile: optional(text('file'), {
    name: 'CODEDOCK_TLS_KEY_FILE',
    apps: SERVICES,
    doc: 'PEM file of the private key of this service.',
  }),

  // The process
  logLevel: withDefault(choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']), 'info', {
    name: 'CODEDOCK_LOG_LEVEL',
    apps: SERVICES,
    doc: 'Lowest level that is logged.',
  }),
  traceRuns: withDefault(choice(['link', 'child']), 'link', {
    name: 'CODEDOCK_TRACE_RUNS',
    apps: ['runner'],
    doc: "Whether a run's first attempt is a trace of its own, linked to the request that queued it, or a child in the request's trace.",
  }),
  logFormat: withDefault(choice(['json', 'pretty']), 'json', {
    name: 'CODEDOCK_LOG_FORMAT',
    apps: SERVICES,
    doc: 'One JSON object per line, or lines for reading at a terminal.',
  }),
  exitWithParent: withDefault(flag(), 'false', {
    name: 'CODEDOCK_EXIT_WITH_PARENT',
    apps: SERVICES,
    doc: 'Shut down when the starting process is gone. Set by `npm start`.',
  }),
  dataDir: withDefault(text('folder'), '.codedock', {
    name: 'CODEDOCK_DATA_DIR',
    apps: ['cli'],
    doc: 'Folder of the embedded profile: database, keys, logs. Read by `npm start` and the command line.',
  }),
  apiUrl: withDefault(url(['http:', 'https:']), 'http://127.0.0.1:8080', {
    name: 'CODEDOCK_URL',
    apps: ['cli'],
    doc: 'Gateway that the command line talks to.',
  }),
  apiKey: optional(secretText(), {
    name: 'CODEDOCK_API_KEY',
    secret: true,
    apps: ['cli'],
    doc: 'API key of the command line.',
  }),
});

/** Keys of the list. */
export type VariableKey = keyof typeof VARIABLES;

/** The list as plain entries, in the order of the documentation. */
export function listVariables(): readonly (readonly [VariableKey, Variable])[] {
  return Object.entries(VARIABLES) as (readonly [VariableKey, Variable])[];
}
