export type { PluginMode, PortName, TestTool } from './hostile/mode.js';
export { PluginProcess, type PluginProcessOptions } from './plugin-process.js';
export { type CallOptions, createHostIdentity, TestHost, type TestHostOptions } from './test-host.js';
export { type PluginJson, type PluginSource, writePlugin } from './write-plugin.js';
