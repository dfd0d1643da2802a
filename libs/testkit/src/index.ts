export * from './plugins/index.js';
export * from './processes/index.js';
export * from './services/index.js';
export * from './store/index.js';
