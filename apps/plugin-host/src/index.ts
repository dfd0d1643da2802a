/** The plugin-host service as a library: configuration, serving in this process, and the table of plugins that follow directives. */
export { type PluginHostConfig, readPluginHostConfig } from './config.js';
export { difference } from './conformance/difference.js';
export type { Called, Directive, HostCall, HostMethod } from './conformance/directives/directive.js';
export { namedBy, parsedBody } from './conformance/directives/gate-row.js';
export { type Row, rows } from './conformance/directives/rows.js';
export { type Candidate, type Refusal, type ScanResult, scanRoots } from './discovery/scanner.js';
export { PluginHost } from './plugin-host.js';
export { type RunningPluginHost, servePluginHost } from './serve.js';
