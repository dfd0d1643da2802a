export * from './processes/index.js';
export * from './services/index.js';
export * from './plugins/index.js';
