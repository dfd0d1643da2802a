export type { PluginMode, PortName, TestTool } from './hostile/mode.js';
export { type PluginJson, type PluginSource, writePlugin } from './write-plugin.js';
