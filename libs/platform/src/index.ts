export * from './config/index.js';
export * from './health/index.js';
export * from './lifecycle/index.js';
export * from './logging/index.js';
export * from './telemetry/index.js';
