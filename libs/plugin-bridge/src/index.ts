export { portMappings } from './mapping/index.js';
export type { WireMessage } from './mapping/message-wire.js';
export type { LaidOver, PayloadText, PortChanges, PortMapping } from './mapping/port-mapping.js';
export * from './ports/index.js';
