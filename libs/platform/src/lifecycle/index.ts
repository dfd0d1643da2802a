export { watchParent } from './parent-watch.js';
export { Shutdown, type ShutdownOptions, type ShutdownStep } from './shutdown.js';
