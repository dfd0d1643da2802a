export {
  type Capability,
  type CapabilitySigner,
  capabilitySigner,
  capabilityVerifier,
  MIN_CAPABILITY_KEY_BYTES,
  peekCapability,
  type VerifiedCapability,
} from './capability.js';
export {
  connectPluginHosts,
  NOTIFIED_BY_HOOKS,
  type PluginHosts,
  type PluginReadiness,
  type PortSummary,
} from './client/connect.js';
export { decisionOfAnswer, type JudgedAnswer } from './client/decision-of-answer.js';
export type { DecisionContext } from './client/decisions.js';
export type { EventNotice } from './client/notification-queue.js';
export type { BridgeLogger, BridgeMetrics, BridgeTls, EpochStore, PluginHostsOptions } from './client/options.js';
export type { PluginAdmin, RecordingListener, ReplicaAnswer } from './client/plugin-admin.js';
export { portMappings } from './mapping/index.js';
export type { WireMessage } from './mapping/message-wire.js';
export type { LaidOver, PayloadText, PortChanges, PortMapping } from './mapping/port-mapping.js';
export * from './ports/index.js';
export { type DispatchService, type ServedDispatches, serveDispatchStream } from './stream/serve-dispatch-stream.js';
