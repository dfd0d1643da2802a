export * from './could-not-ask.js';
export * from './gates.js';
