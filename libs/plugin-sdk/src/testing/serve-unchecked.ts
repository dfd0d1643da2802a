/**
 * For tests of hosts: serves answers that the typed interface does not allow. `replace` gets the well-behaved services
 * and returns what is served instead.
 */
export { type ReplaceServices, type ShutdownBehaviour, serveWith as serveUnchecked } from '../serve/serve.js';
