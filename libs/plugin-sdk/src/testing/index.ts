/** Runs plugins without a host: in their own tests, and in the tests of hosts. */
export { type ReplaceServices, type ShutdownBehaviour, serveUnchecked } from './serve-unchecked.js';
