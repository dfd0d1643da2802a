export { cannotListen } from './cannot-listen.js';
export { ConfigError, type ConfigProblem } from './config-error.js';
export {
  type AppConfig,
  type AppVariableKey,
  type ConfigOf,
  type Environment,
  readConfig,
  readVariables,
} from './read-config.js';
export { renderConfigurationDocument, renderEnvironmentExample } from './render-variables.js';
export { Secret } from './secret.js';
export { readTlsFiles, type TlsFiles } from './tls-files.js';
export { type Address, isLoopback, keyBytes, parseDuration, parseSize } from './value-types.js';
export { type App, listVariables, type Presence, VARIABLES, type Variable, type VariableKey } from './variables.js';
