export type { LoopPorts } from './loop-ports.js';
export type { LoopResult } from './loop-result.js';
export { runLoop } from './run-loop.js';
