/** The plugin-host service as a library: configuration, and serving in this process. */
export { type PluginHostConfig, readPluginHostConfig } from './config.js';
export { type Candidate, type Refusal, type ScanResult, scanRoots } from './discovery/scanner.js';
export { PluginHost } from './plugin-host.js';
export { type RunningPluginHost, servePluginHost } from './serve.js';
