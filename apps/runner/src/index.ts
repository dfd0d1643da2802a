export { type RunnerConfig, readRunnerConfig } from './config.js';
export type { RunConsumer } from './consumer/run-consumer.js';
export { type Runner, type StartRunner, startRunner } from './runner.js';
export type { RunnerOptions, RunnerParts } from './runner.module.js';
export type { LocalTool } from './tools/tool-registry.js';
