/**
 * Protocol definitions and their generated codecs, one namespace per proto package:
 * `plugin` (codedock.plugin.v1), `gate` (codedock.gate.v1), `host` (codedock.host.v1),
 * `wire` (go-plugin's own services), `health` (grpc.health.v1).
 */
export { withoutCallerStack } from './caller-stack.js';
export * as gate from './gen/codedock/gate/v1/gate.js';
export * as host from './gen/codedock/host/v1/host.js';
export * as plugin from './gen/codedock/plugin/v1/plugin.js';
export { Empty } from './gen/google/protobuf/empty.js';
export * as health from './gen/grpc/health/v1/health.js';
export * as wire from './gen/plugin/wire.js';
export * from './limits.js';
export { packageDefinitionOf } from './package-definition.js';
export { eventPattern, isPort, type Port, ports } from './ports.js';
export { protoRoot } from './proto-root.js';
